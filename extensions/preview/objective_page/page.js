"use strict";
// The page: a text, its words as buttons, and what the chosen objective makes of them.

const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);

/** How each objective is chosen: what a click on a word does, and the sentence that says so. */
const CLICKS = {
  none: "There is nothing to choose.",
  cut: "Click a word: the part behind the cut starts there.",
  mark: "Click a word again and again: it becomes [MASK], the other word below, itself, and is free again.",
  replace: "Click a word: the other word takes its place.",
  hide: "Click words; clicked neighbors are one span.",
  fill: "Click words; clicked neighbors are one span. Click a dot for a span without words.",
  order: "Click words in an order.",
  sentences: "Click sentences in an order; the others follow.",
};
const KINDS = {
  causal_lm: "none", prefix_lm: "cut", masked_lm: "mark", replaced_token_detection: "replace", mass: "mark",
  permuted_lm: "order", next_sentence_prediction: "mark", span_corruption: "hide", text_infilling: "fill",
  denoising_autoencoding: "hide", token_deletion: "hide", token_reordering: "order",
  sentence_reordering: "sentences", document_rotation: "cut",
};

let text;
let partner;
let choice = data.choice;

function element(tag, content = [], attributes = {}) {
  const made = document.createElement(tag);
  made.append(...[content].flat());
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const setup = () => data.objectives[at("objective").value];
const kind = () => KINDS[at("objective").value];

function readTexts() {
  text = readText(at("text").value, data.abbreviations);
  partner = readText(at("partner").value, data.abbreviations);
}

/** A first choice for a new text or objective. */
function suggestChoice() {
  const count = text.words.length;
  const isPair = at("objective").value === "next_sentence_prediction";
  const cut = isPair ? text.starts[1] ?? count : Math.ceil(count / 2);
  const kinds = { mark: MASK, hide: MASK, fill: MASK, replace: at("word").value };
  const marks = kind() in kinds && count > 1 ? { 1: kinds[kind()] } : {};
  const order = { order: [count - 1, 0], sentences: [text.starts.length - 1] }[kind()] ?? [];
  choice = { marks, gaps: [], order: [...new Set(order)].filter((index) => index >= 0), cut, other: isPair && cut === count };
}

/** The items that can be clicked: words, or for a pair of sentences the row without its ends. */
function items() {
  if (at("objective").value !== "next_sentence_prediction") return text.words;
  return corrupt().rows[0].original;
}

function corrupt() {
  return KERNELS[at("objective").value](setup(), text, choice, partner);
}

function toggle(list, item) {
  return list.includes(item) ? list.filter((other) => other !== item) : [...list, item];
}

function mark(position, word) {
  const other = at("word").value.trim().match(WORD)?.[0] ?? MASK;
  const steps = { mark: [MASK, other, word], replace: [other] }[kind()] ?? [MASK];
  const next = steps[steps.indexOf(choice.marks[position]) + 1];
  delete choice.marks[position];
  if (next !== undefined) choice.marks[position] = next;
}

function click(position, word) {
  const sentence = text.starts.filter((start) => start <= position).length - 1;
  if (kind() === "cut") choice.cut = Math.max(position, 1);
  else if (kind() === "order") choice.order = toggle(choice.order, position);
  else if (kind() === "sentences") choice.order = toggle(choice.order, sentence);
  else if (kind() !== "none") mark(position, word);
  show();
}

function wordButtons() {
  const buttons = [];
  items().forEach((word, position) => {
    if (kind() === "fill") {
      const gap = element("button", "·", { class: "gap", "aria-pressed": choice.gaps.includes(position) });
      const touches = position in choice.marks || position - 1 in choice.marks;
      gap.disabled = touches;
      if (touches) choice.gaps = choice.gaps.filter((other) => other !== position);
      gap.onclick = () => { choice.gaps = toggle(choice.gaps, position); show(); };
      buttons.push(gap);
    }
    const sentence = text.starts.filter((start) => start <= position).length - 1;
    const rank = choice.order.indexOf(kind() === "sentences" ? sentence : position) + 1;
    const isChosen = { cut: position >= choice.cut, order: rank > 0, sentences: rank > 0 }[kind()] ?? position in choice.marks;
    const button = element("button", word, { "aria-pressed": isChosen && kind() !== "none" });
    if (["order", "sentences"].includes(kind()) && rank) button.append(element("sub", String(rank)));
    button.disabled = word === setup().last;
    button.onclick = () => click(position, word);
    buttons.push(button);
  });
  return buttons;
}

const inBox = (content) => element("div", content, { class: "scroll", tabindex: 0 });

/** A row as table: the terms of e = x + pos + seg, and the label below each position. */
function rowTable(row) {
  const lines = {
    "input (x)": row.input,
    "position (pos)": row.positions,
    "segment (seg)": row.segments?.map((number) => "AB"[number]) ?? row.input.map(() => "–"),
  };
  const isSource = row.title === "encoder";
  if (!isSource) lines[row.labelTitle] = row.labels.map((label) => label ?? "__");
  const table = element("table", [], { class: "row" });
  for (const [title, cells] of Object.entries(lines)) {
    table.append(element("tr", [element("th", title), ...cells.map((cell) => element("td", String(cell)))]));
  }
  return [element("h3", row.title), inBox(table)];
}

function gridFigure(grid) {
  const names = grid.columns.map((word) => element("th", element("span", word)));
  const table = element("table", element("tr", [element("th"), ...names]), { class: "attention" });
  grid.reads.forEach((line, row) => {
    const cells = line.map((read, column) => element("td", [], {
      class: read ? "read" : "",
      title: `${grid.rows[row]} ${read ? "reads" : "does not read"} ${grid.columns[column]}`,
    }));
    table.append(element("tr", [element("th", grid.rows[row]), ...cells]));
  });
  const [reader, source] = grid.title === "cross-attention" ? ["decoder", "encoder"] : ["position that reads", "position that is read"];
  const caption = [element("b", grid.title), element("small", `row: ${reader}`), element("small", `column: ${source}`)];
  return element("figure", [element("figcaption", caption), inBox(table)]);
}

function show() {
  const made = corrupt();
  at("pair").hidden = at("objective").value !== "next_sentence_prediction";
  at("other").checked = choice.other;
  at("word").parentElement.hidden = !["mark", "replace"].includes(kind());
  at("hint").textContent = CLICKS[kind()];
  at("words").replaceChildren(...wordButtons());
  at("rows").replaceChildren(...made.rows.flatMap(rowTable));
  if (made.answer !== undefined) {
    at("rows").append(element("p", `Does the second sentence follow the first? ${made.answer ? "yes" : "no"}`));
  }
  at("grids").replaceChildren(...made.grids.map(gridFigure));
}

/** Whether the page makes the example that the command made. */
function equalsCommand() {
  const [row, decoder] = corrupt().rows;
  const made = { input: row.input, target: decoder ? decoder.labels : [] };
  return JSON.stringify(made) === JSON.stringify(data.example);
}

function start() {
  at("objective").append(...Object.keys(data.objectives).map((name) => element("option", name)));
  at("objective").value = data.name;
  at("text").value = data.text;
  at("partner").value = data.partner;
  at("word").value = "hat";
  readTexts();
  const changed = () => { readTexts(); suggestChoice(); show(); };
  if (choice === null) suggestChoice();
  at("differs").hidden = equalsCommand();
  for (const id of ["objective", "text", "partner"]) at(id).oninput = changed;
  at("other").onchange = () => { choice = { ...choice, marks: {}, other: at("other").checked }; show(); };
  show();
}

start();
