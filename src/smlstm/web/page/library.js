// The library: what it holds, how far indexing is, and what could not be used.

import { get, post, sentence } from "./api.js";
import { element } from "./looking.js";

const $ = (id) => document.getElementById(id);
const dialog = $("library");
const OFTEN = 700;
const SHOWN = 30;

export class LibraryState {
  constructor(changed) {
    Object.assign(this, { changed, photos: null, running: false, timer: null });
    this.first = this.look();
    dialog.querySelector(".close").addEventListener("click", () => dialog.close());
    $("open-library").addEventListener("click", () => this.open());
    $("reindex").addEventListener("click", () => this.reindex());
  }

  async look() {
    clearTimeout(this.timer);
    const state = await get("/library");
    const before = this.photos, ended = this.running && !state.indexing.running;
    this.photos = state.photos;
    this.running = state.indexing.running;
    this.show(state);
    if (before !== null && (before !== state.photos || (ended && !state.photos))) this.changed();
    if (state.indexing.running) this.timer = setTimeout(() => this.look().catch(() => {}), OFTEN);
    return state;
  }

  show(state) {
    const { indexing } = state, bar = $("progress-bar");
    $("progress").hidden = !indexing.running && !indexing.failed;
    bar.hidden = !indexing.running;
    if (indexing.total) [bar.max, bar.value] = [indexing.total, indexing.done];
    else bar.removeAttribute("value");
    $("progress-text").textContent = !indexing.running ? `Indexing ended: ${indexing.failed}` : indexing.total
      ? `Taking in photos: ${indexing.done} of ${indexing.total}` : "Looking for new photos…";
    const select = $("filters").elements.folder, chosen = select.value;
    select.replaceChildren(new Option("all", ""),
      ...state.folders.map((folder) => new Option(`${folder.path} (${folder.files})`, folder.id)));
    select.value = [...select.options].some((option) => option.value === chosen) ? chosen : "";
    const rows = [
      ["Photos", `${state.photos} in ${state.files} files`],
      ...state.folders.slice(0, SHOWN).map((folder) => ["Folder", `${folder.path}: ${folder.files} files`]),
      ["Stored in", state.library],
      ["Model", `${state.model.kind}, knows ${state.model.words} words`],
      ["smlstm", state.version],
      ...(indexing.unreachable ? [["Not reachable now", `${indexing.unreachable} files, looked at again next time`]] : []),
      ...indexing.notes.map((note) => ["Note", note]),
      ...(indexing.failed ? [["Indexing", sentence(indexing.failed)]] : []),
    ];
    $("state").replaceChildren(...rows.flatMap(([term, told]) =>
      [element("dt", { textContent: term }), element("dd", { textContent: told })]));
  }

  async open() {
    dialog.showModal();
    $("skipped").replaceChildren();
    try {
      await this.look();
      const { files, total } = await get("/library/skipped");
      const rest = total - files.length;
      $("skipped").replaceChildren(...files.map((file) => element("li", { textContent: `${file.path}: ${file.reason}` })),
        ...(rest ? [element("li", { textContent: `and ${rest} more` })] : []),
        ...(total ? [] : [element("li", { textContent: "none" })]));
    } catch (error) {
      $("skipped").replaceChildren(element("li", { textContent: sentence(error.message) }));
    }
  }

  async reindex() {
    try {
      await post("/library/index", {});
      $("reindex-status").textContent = "Started.";
      await this.look();
    } catch (error) {
      $("reindex-status").textContent = sentence(error.message);
    }
  }
}
