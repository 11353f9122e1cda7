// The page: a search box, a grid that grows, and the dialogs over it. What is asked for is in the address, so that
// going back and reloading work.

import { address, get, percent, post, sentence, WEAK } from "./api.js";
import { LibraryState } from "./library.js";
import { element, wordNotices } from "./looking.js";
import { setUpNaming } from "./naming.js";
import { Viewer } from "./viewer.js";

const PAGE = 24;
const $ = (id) => document.getElementById(id);
const results = $("results"), more = $("more"), filters = $("filters");
let question = {}, photos = [], asking = null, hasMore = false, attending = true;

const viewer = new Viewer({ neighbour, similar: (photo) => go({ q: "", similar: photo.id }) });
const library = new LibraryState(() => isUndisturbed() && show());
setUpNaming(library.first);

// What the address asks for, into the fields.
function fill() {
  const asked = new URLSearchParams(location.search);
  $("sentence").value = asked.get("q") ?? "";
  for (const name of ["since", "until", "path", "minus", "minimum"]) filters.elements[name].value = asked.get(name) ?? "";
}

function read() {
  const asked = new URLSearchParams(location.search);
  const one = (name) => asked.get(name) ?? "";
  const found = {};
  if (one("q").trim()) found.sentence = one("q").trim();
  if (one("similar")) found.similar = one("similar");
  if (one("since")) found.since = one("since");
  if (one("until")) found.until = one("until");
  if (one("path")) found.paths = [one("path")];
  if (one("folder")) found.folders = [one("folder")];
  if (found.sentence && one("minus").trim()) found.minus = [one("minus").trim()];
  if (one("minimum")) found.minimum = Math.min(Math.max(Number(one("minimum")) / 100 || 0, 0), 1);
  return found;
}

function go(changes = {}) {
  const asked = new URLSearchParams();
  const wanted = { q: $("sentence").value.trim(), ...Object.fromEntries(new FormData(filters)), ...changes };
  if (library.photos === null) wanted.folder = new URLSearchParams(location.search).get("folder"); // cannot be chosen yet
  for (const [name, value] of Object.entries(wanted)) if (value) asked.set(name, value);
  const target = asked.size ? `/?${asked}` : "/";
  if (target !== location.pathname + location.search) history.pushState(null, "", target);
  start();
}

async function start() {
  fill(); // at once: what is typed from now on is not written over
  await library.first.catch(() => {}); // which fills the folders that the address may name
  filters.elements.folder.value = new URLSearchParams(location.search).get("folder") ?? "";
  await show();
}

async function show() {
  question = read();
  asking?.abort();
  photos = [];
  results.replaceChildren();
  say("notice", "");
  document.title = question.sentence ? `${question.sentence} – smlstm` : "smlstm";
  $("similar").hidden = !question.similar;
  if (question.similar) nameSimilar(question.similar);
  await load();
}

async function nameSimilar(id) {
  const shown = await get(`/photos/${id}`).catch(() => null);
  $("similar").querySelector("b").textContent = shown?.name ?? "a photo that has gone";
}

async function load() {
  asking = new AbortController();
  const { signal } = asking;
  more.disabled = true;
  if (!photos.length) say("status", "Searching…");
  try {
    const answer = await ask(signal);
    if (signal.aborted) return; // another question came while this answer was on its way
    hasMore = answer.more;
    add(answer.photos);
    tell(answer);
  } catch (error) {
    if (error.name === "AbortError") return;
    hasMore = false;
    say("status", "");
    say("notice", sentence(error.message));
  } finally {
    if (!signal.aborted) {
      asking = null;
      more.disabled = false;
      more.hidden = !hasMore;
    }
  }
}

function ask(signal) {
  const place = { offset: photos.length, limit: PAGE };
  if (question.sentence || question.similar) return post("/search", { ...question, ...place }, signal);
  const { since, until, paths, folders } = question;
  return get("/photos", { ...place, since, until, path: paths?.[0], folder: folders?.[0] }, signal);
}

function tell(answer) {
  const asked = question.sentence || question.similar;
  if (!photos.length) {
    const narrowed = question.since || question.until || question.paths || question.folders || question.minimum;
    const empty = library.running ? "The first photos are being taken in; they appear here in a moment."
      : "The library has no photos yet. Start smlstm with a folder: smlstm serve FOLDER";
    say("status", library.photos === 0 ? empty : narrowed ? "No photo fits. Fewer filters find more." : "No photo was found.");
  } else if (question.sentence && answer.calibrated && photos[0].probability < WEAK) {
    say("status", `No photo matches well: these come nearest of ${answer.searched}.`);
  } else if (asked) {
    say("status", `${photos.length}${answer.more ? " best" : ""} of ${answer.searched} photos, the best first.`);
  } else {
    say("status", `${answer.total} photos, the newest first. Describe one to find it.`);
  }
  if (!asked) return;
  const notices = [];
  notices.push(...wordNotices(answer));
  if (!answer.calibrated) notices.push("Percentages only put photos in order: this model is not calibrated.");
  say("notice", notices.join(" "));
}

function say(id, text) {
  $(id).textContent = text;
  if (id === "notice") $(id).hidden = !text;
}

function add(found) {
  const first = photos.length;
  photos.push(...found);
  results.append(...found.map((photo, k) => tile(photo, first + k)));
}

function tile(photo, number) {
  const image = element("img", { src: address(`/photos/${photo.id}/thumbnail`), alt: "", decoding: "async" });
  if (number >= PAGE / 2) image.loading = "lazy";
  image.addEventListener("error", () => image.classList.add("broken"));
  const match = photo.probability != null ? percent(photo.probability) : "";
  const button = element("button", { type: "button", title: photo.path }, image,
    element("span", {}, element("span", { className: "name", textContent: photo.name }), element("b", { textContent: match })));
  button.dataset.id = photo.id;
  button.setAttribute("aria-label", match ? `${photo.name}, ${match} match` : photo.name);
  button.addEventListener("click", () => viewer.show(photo, attending ? question.sentence : ""));
  return element("li", {}, button);
}

async function neighbour(id, by) {
  const place = photos.findIndex((photo) => photo.id === id) + by;
  if (place >= photos.length && hasMore && !asking) await load();
  return photos[place];
}

function columns() {
  return getComputedStyle(results).gridTemplateColumns.split(" ").length;
}

results.addEventListener("keydown", (event) => {
  const tiles = [...results.querySelectorAll("button")], place = tiles.indexOf(document.activeElement);
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() }[event.key];
  if (by === undefined || place < 0) return;
  event.preventDefault();
  tiles[Math.min(Math.max(place + by, 0), tiles.length - 1)].focus();
});
document.getElementById("viewer").addEventListener("close", () => {
  // To where the last one shown is; this event comes late, and someone may have gone to a field by then.
  if (!document.activeElement?.matches("input, textarea, select")) results.querySelector(`[data-id="${viewer.shown?.id}"]`)?.focus();
  viewer.shown = null;
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  $("sentence").focus();
  $("sentence").select();
});
$("search").addEventListener("submit", (event) => { event.preventDefault(); go(keepSimilar()); });
filters.addEventListener("submit", (event) => { event.preventDefault(); go(keepSimilar()); });
filters.addEventListener("reset", () => setTimeout(() => go(keepSimilar())));
$("similar").querySelector("button").addEventListener("click", () => go());
$("home").addEventListener("click", (event) => { event.preventDefault(); history.pushState(null, "", "/"); start(); });
$("open-filters").addEventListener("click", (event) => {
  filters.hidden = !filters.hidden;
  event.currentTarget.setAttribute("aria-expanded", String(!filters.hidden));
});
more.addEventListener("click", () => asking || load());
new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && hasMore && !asking && load(),
  { rootMargin: "400px" }).observe(more);
addEventListener("popstate", start);
library.first.then((state) => { viewer.attends = attending = state.model.attends; }, (error) => say("notice", sentence(error.message)));
start();

// New photos may take the place of those shown only where nobody is looking closer.
function isUndisturbed() {
  if (question.sentence || question.similar) return false;
  return photos.length < PAGE || (scrollY < 300 && !document.querySelector("dialog[open]"));
}

function keepSimilar() {
  return question.similar ? { similar: question.similar } : {};
}
