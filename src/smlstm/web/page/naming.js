// Naming a photo: dropped or chosen, it is sent, looked at, and not kept.

import { percent, post, sentence, WEAK } from "./api.js";
import { element, fit, showLooking, wordNotices } from "./looking.js";

const $ = (id) => document.getElementById(id);
const dialog = $("naming"), stage = $("dropped"), picture = stage.querySelector("img"), status = $("naming-status");
let file = null, end = null, asking = null, attends = true;

export function setUpNaming(state) {
  state.then((found) => (attends = found.model.attends), () => {});
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => take(null));
  $("open-naming").addEventListener("click", () => dialog.showModal());
  $("file").addEventListener("change", (event) => event.target.files[0] && take(event.target.files[0]));
  $("naming-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (file) name();
    else status.textContent = "Choose a photo first.";
  });
  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  addEventListener("dragleave", () => document.body.classList.remove("dragging"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dragging");
    const [dropped] = event.dataTransfer.files;
    if (!dropped) return;
    if (!dialog.open) dialog.showModal();
    take(dropped);
  });
  fit(stage);
  picture.addEventListener("error", () => picture.src && (stage.hidden = true)); // a format that only the server reads
}

function take(given) {
  asking?.abort();
  end?.();
  end = null;
  if (picture.src) URL.revokeObjectURL(picture.src);
  picture.removeAttribute("src");
  stage.hidden = true;
  $("names").replaceChildren();
  status.textContent = "";
  file = given;
  if (!given) return ($("file").value = "");
  picture.src = URL.createObjectURL(given);
  stage.hidden = false;
  name();
}

async function name() {
  asking?.abort();
  asking = new AbortController();
  end?.();
  end = null;
  const own = $("own").value.split("\n").map((line) => line.trim()).filter(Boolean);
  const form = new FormData();
  form.append("photos", file);
  own.forEach((line) => form.append("sentences", line));
  form.append("k", own.length || 8);
  form.append("explain", attends);
  $("names").replaceChildren();
  status.textContent = "Looking at the photo…";
  try {
    show(await post("/uploads/annotate", form, asking.signal));
  } catch (error) {
    if (error.name !== "AbortError") status.textContent = sentence(error.message);
  }
}

function show(answer) {
  const found = answer.photos[0].sentences;
  const weak = answer.calibrated && found[0].probability < WEAK;
  const notices = [weak ? "None of the sentences matches well." : `The best match is “${found[0].sentence}”.`];
  notices.push(...wordNotices(answer));
  if (!answer.calibrated) notices.push("Percentages only put sentences in order: this model is not calibrated.");
  status.textContent = notices.join(" ");
  $("names").replaceChildren(...found.map((each) => {
    const button = element("button", { type: "button" },
      element("span", { textContent: each.sentence }), element("b", { textContent: percent(each.probability) }),
      element("meter", { min: 0, max: 1, value: each.probability, ariaHidden: "true" }));
    button.setAttribute("aria-pressed", "false");
    button.title = each.explanation ? "Show where the model looked" : "";
    button.addEventListener("click", () => {
      if (!each.explanation) return;
      $("names").querySelectorAll("button").forEach((one) => one.setAttribute("aria-pressed", one === button));
      end?.();
      end = showLooking($("named-looked"), stage, each.explanation);
    });
    return element("li", {}, button);
  }));
}
