// What the model read and looked at: its steps by phrase and place, the words lit by their attention, the map on the photo.

import { percent, sentence } from "./api.js";
import { clear, draw, drawLegend, evenShares, limitOf } from "./saliency.js";

const SECONDS_PER_STEP = 1.2;

export function element(name, properties = {}, ...children) {
  const found = Object.assign(document.createElement(name), properties);
  found.append(...children);
  return found;
}

// Gives a stage the shape of the picture on it, as large as there is room.
export function fit(stage) {
  const picture = stage.querySelector("img");
  picture.addEventListener("load", () =>
    stage.style.setProperty("--ratio", picture.naturalWidth / Math.max(picture.naturalHeight, 1)));
}

// The words of a sentence, those of a step's phrase held together; a word whose map is known can be pointed at.
function sentenceOf(explanation) {
  const { words, function_words: quiet, word_maps: maps, steps } = explanation;
  const phrases = new Map(steps.map(({ phrase }) => [phrase.first, { ...phrase, box: element("span", { className: "phrase" }) }]));
  const shown = words.map((word, k) => {
    const name = maps?.[k] ? "button" : "span";
    const found = element(name, { className: quiet[k] ? "quiet" : "word", textContent: word });
    if (maps?.[k]) found.type = "button";
    return found;
  });
  const list = element("p", { className: "words" });
  for (let k = 0; k < words.length;) {
    const phrase = phrases.get(k), last = phrase ? phrase.last : k + 1, into = phrase ? phrase.box : list;
    shown.slice(k, last).forEach((each, place) => into.append(place ? " " : "", each));
    list.append(...(phrase ? [phrase.box] : []), " ");
    k = last;
  }
  return { list, shown, phrases };
}

function stepButton({ phrase, place }, number) {
  const found = element("button", { type: "button" },
    element("span", { className: "hidden", textContent: `Step ${number + 1}: ` }),
    element("b", { textContent: phrase.text }), " ",
    element("span", { textContent: place }), " ", element("small", { textContent: percent(phrase.share) }));
  found.title = `Step ${number + 1}: the phrase that was read, its share of the step, and where in the photo it looked`;
  return found;
}

// Fills `place` with the controls of an explanation whose map is drawn on the stage's canvas; returns how to end it.
export function showLooking(place, stage, explanation) {
  const { steps, word_maps: maps, function_words: quiet } = explanation, canvas = stage.querySelector("canvas");
  const grids = [...steps, ...(maps ?? []).filter(Boolean)].map((each) => evenShares(each.regions));
  const limit = limitOf(grids);
  const { list, shown: words, phrases } = sentenceOf(explanation);
  const buttons = steps.map(stepButton), told = element("p", { className: "pale told" });
  const play = element("button", { type: "button", textContent: "Play" });
  const shown = element("input", { type: "checkbox", checked: true });
  const legend = element("canvas", { className: "legend", ariaHidden: "true" });
  let timer = null, step = 0, hovered = null, focused = null;
  told.setAttribute("role", "status");
  drawLegend(legend);

  const paint = (grid) => {
    stage.classList.toggle("mapped", shown.checked);
    if (shown.checked) draw(canvas, grid, limit);
    else clear(canvas);
  };
  const showStep = () => {
    const now = steps[step], most = Math.max(...now.words.filter((_, k) => !quiet[k]), 1e-9);
    told.textContent = now.told;
    buttons.forEach((button, k) => button.setAttribute("aria-pressed", k === step));
    phrases.forEach((each) => each.box.classList.toggle("top", each.first === now.phrase.first));
    words.forEach((word, k) => {
      word.style.backgroundColor = quiet[k] ? "" : `rgba(var(--lit), ${(0.85 * now.words[k]) / most})`;
      word.title = quiet[k] ? "" : `${percent(now.words[k])} of the step's attention`;
    });
    paint(now.regions);
  };
  // The word that is pointed at, else the one that was tapped or reached with the keyboard, else the step.
  const show = () => {
    const word = hovered ?? focused;
    if (word === null) return showStep();
    stop();
    told.textContent = maps[word].told;
    buttons.forEach((button) => button.setAttribute("aria-pressed", false));
    phrases.forEach((each) => each.box.classList.remove("top"));
    words.forEach((each, k) => { each.style.backgroundColor = k === word ? "rgba(var(--lit), .85)" : ""; });
    paint(maps[word].regions);
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  shown.addEventListener("change", show);
  play.addEventListener("click", () => {
    if (timer) return stop();
    play.textContent = "Stop";
    timer = setInterval(() => {
      step = (step + 1) % steps.length;
      showStep();
    }, 1000 * SECONDS_PER_STEP);
  });
  buttons.forEach((button, k) => button.addEventListener("click", () => {
    stop();
    step = k;
    showStep();
  }));
  words.forEach((word, k) => {
    if (!maps?.[k]) return;
    const point = (event, at) => {
      if (event.pointerType === "touch") return; // which leaves as soon as it has come
      hovered = at;
      show();
    };
    word.addEventListener("pointerenter", (event) => point(event, k));
    word.addEventListener("pointerleave", (event) => point(event, null));
    word.addEventListener("focus", () => { focused = k; show(); });
    word.addEventListener("blur", () => { focused = null; show(); });
    word.addEventListener("click", () => word.focus()); // which not every browser does by itself
  });

  place.replaceChildren(
    list,
    ...(maps ? [element("p", { className: "pale", textContent: "Point at a word, or tap it, to see where it is." })] : []),
    element("ol", { className: "steps" }, ...buttons.map((button) => element("li", {}, button))),
    told,
    legend,
    element("div", { className: "ticks" },
      element("span", { textContent: "hardly looked at" }),
      element("span", { textContent: `${limit.toFixed(1)} × an even share` })),
    element("p", { className: "shown" }, element("label", {}, shown, " Show the map"), play),
    element("p", { className: "pale parts", textContent: explanation.parts.told }),
    ...notes(explanation).map((note) => element("p", { className: "pale", textContent: note })),
  );
  showStep();
  return () => {
    stop();
    clear(canvas);
    stage.classList.remove("mapped");
    place.replaceChildren();
  };
}

function notes(explanation) {
  const found = wordNotices(explanation);
  if (explanation.dropped_words) found.push(`The last ${explanation.dropped_words} words were too many and were cut.`);
  return found;
}

// What to know of the words of a question: which were read as others, which were never learned.
export function wordNotices({ read_as: readAs, unknown_words: unknown }) {
  const found = Object.entries(readAs).map(([typed, meant]) => `“${typed}” was read as “${meant}”.`);
  if (unknown.length) found.push(sentence(`the model has not learned: ${unknown.join(", ")}`));
  return found;
}
