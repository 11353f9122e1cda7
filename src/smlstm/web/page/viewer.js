// A photo opened: large, with what the model looked at when there is a sentence.

import { address, get, percent, post, sentence } from "./api.js";
import { fit, showLooking } from "./looking.js";

const $ = (id) => document.getElementById(id);
const dialog = $("viewer"), stage = dialog.querySelector(".stage"), photo = $("photo");

export class Viewer {
  constructor({ neighbour, similar }) {
    Object.assign(this, { neighbour, similar, end: null, shown: null, asked: "", turn: 0, attends: true });
    dialog.querySelector(".close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => this.clear());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    $("previous").addEventListener("click", () => this.move(-1));
    $("next").addEventListener("click", () => this.move(1));
    $("find-similar").addEventListener("click", () => {
      const shown = this.shown;
      dialog.close();
      this.similar(shown);
    });
    dialog.addEventListener("keydown", (event) => {
      if (event.target.matches("input") || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "ArrowLeft") this.move(-1);
      else if (event.key === "ArrowRight") this.move(1);
      else return;
      event.preventDefault();
    });
  }

  async move(by) {
    const other = await this.neighbour(this.shown.id, by);
    if (other && dialog.open) this.show(other, this.asked);
  }

  clear() {
    this.end?.();
    this.end = null;
    this.turn += 1;
    photo.removeAttribute("src");
  }

  async show(found, asked) {
    this.clear();
    Object.assign(this, { shown: found, asked });
    const turn = this.turn;
    $("viewer-title").textContent = found.name;
    photo.alt = found.name;
    if (found.width) stage.style.setProperty("--ratio", found.width / found.height); // before it has arrived
    photo.src = address(`/photos/${found.id}/picture`);
    $("facts").textContent = facts(found);
    $("download").hidden = true;
    $("looked").textContent = "";
    if (!dialog.open) dialog.showModal();
    if (!asked || !this.attends) return;
    $("looked").textContent = "Looking…";
    try {
      const answer = await post("/explain", { photos: [found.id], sentences: [asked] });
      if (turn !== this.turn) return;
      this.end = showLooking($("looked"), stage, answer.explanations[0]);
      $("download").href = address(`/photos/${found.id}/explanation.png`, { sentence: asked });
      $("download").hidden = false;
    } catch (error) {
      if (turn === this.turn) $("looked").textContent = sentence(error.message);
    }
  }
}

function facts(found) {
  const parts = [found.path];
  if (found.width) parts.push(`${found.width} × ${found.height}`);
  if (found.taken) parts.push(new Date(found.taken).toLocaleString());
  if (found.probability != null) parts.push(`${percent(found.probability)} match`);
  if (found.copies.length) parts.push(`also as ${found.copies.join(", ")}`);
  return parts.join(" · ");
}

fit(stage);
photo.addEventListener("error", () => {
  if (!photo.hasAttribute("src")) return;
  const id = photo.src.split("/").at(-2);
  get(`/photos/${id}/picture`).catch((error) => ($("facts").textContent = sentence(error.message)));
});
