// What the model looked at, step by step: a slider over the steps, the words lit by their attention, the map on the photo.

import { percent, sentence } from "./api.js";
import { clear, draw, drawLegend, evenShares, limitOf, mapOfWord } from "./saliency.js";

const SECONDS_PER_STEP = 1.2;
let made = 0;

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

// Fills `place` with the controls of an explanation whose map is drawn on the stage's canvas; returns how to end it.
export function showLooking(place, stage, explanation) {
  const { steps, words } = explanation, canvas = stage.querySelector("canvas");
  const limit = limitOf(steps.map((step) => evenShares(step.regions)));
  const id = `step-${(made += 1)}`;
  const slider = element("input", { type: "range", id, min: 1, max: steps.length, value: 1, step: 1 });
  const label = element("label", { htmlFor: id }), told = element("p", { className: "pale told" });
  const play = element("button", { type: "button", textContent: "Play" });
  const shown = element("input", { type: "checkbox", checked: true });
  const legend = element("canvas", { className: "legend", ariaHidden: "true" });
  const buttons = words.map((word) => element("button", { type: "button" }, word, element("small")));
  const list = element("div", { className: "words" }, ...buttons);
  let timer = null;
  told.setAttribute("role", "status");
  list.setAttribute("role", "group");
  list.setAttribute("aria-label", "Words of the sentence; on each, the map shows where the model looked with it");
  drawLegend(legend);

  const step = () => Number(slider.value) - 1;
  const paint = (grid) => {
    stage.classList.toggle("mapped", shown.checked);
    if (shown.checked) draw(canvas, grid, limit);
    else clear(canvas);
  };
  const showStep = () => {
    const now = steps[step()], most = Math.max(...now.words);
    const top = [...now.words.keys()].sort((a, b) => now.words[b] - now.words[a]).slice(0, 2);
    label.textContent = `Step ${step() + 1} of ${steps.length}`;
    slider.setAttribute("aria-valuetext", now.told);
    told.textContent = now.told;
    buttons.forEach((button, k) => {
      button.style.backgroundColor = `rgba(var(--lit), ${(0.85 * now.words[k]) / most})`;
      button.classList.toggle("top", top.includes(k));
      button.lastChild.textContent = percent(now.words[k]);
      button.setAttribute("aria-label", `${words[k]}, ${percent(now.words[k])} of the attention`);
    });
    paint(now.regions);
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  slider.addEventListener("input", showStep);
  shown.addEventListener("change", showStep);
  play.addEventListener("click", () => {
    if (timer) return stop();
    play.textContent = "Stop";
    timer = setInterval(() => {
      slider.value = (step() + 1) % steps.length + 1;
      showStep();
    }, 1000 * SECONDS_PER_STEP);
  });
  buttons.forEach((button, k) => {
    for (const event of ["mouseenter", "focus"]) {
      button.addEventListener(event, () => {
        paint(mapOfWord(steps, k));
        label.textContent = `Looking at “${words[k]}”`;
      });
    }
    for (const event of ["mouseleave", "blur"]) button.addEventListener(event, showStep);
  });

  const head = `“${explanation.sentence}”`;
  const match = explanation.probability == null ? "" : ` ${percent(explanation.probability)}`;
  place.replaceChildren(
    element("p", {}, head, element("b", { textContent: match })), list,
    element("div", { className: "steps" }, label, slider, play), told,
    legend,
    element("div", { className: "ticks" },
      element("span", { textContent: "hardly looked at" }),
      element("span", { textContent: `${limit.toFixed(1)} × an even share` })),
    element("p", {}, element("label", {}, shown, " Show the map")),
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
  const found = [];
  if (explanation.unknown_words.length) found.push(unknownNotice(explanation.unknown_words));
  if (explanation.dropped_words) found.push(`The last ${explanation.dropped_words} words were too many and were cut.`);
  return found;
}

export function unknownNotice(words) {
  return sentence(`the model has not learned: ${words.join(", ")}`);
}
