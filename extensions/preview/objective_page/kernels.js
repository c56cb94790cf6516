"use strict";
// What an objective makes of the words of a text and of a choice: rows of input and labels, and
// what each position reads. The tests compare all of it with what the pipeline makes.
//
// choice: marks {position: the token in its place}, gaps [positions before which an empty span
// lies], order [positions or sentences], cut (a position), other (whether the second segment is
// from the other document).

const MASK = "[MASK]";
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const LETTERS = "[\\p{L}\\p{N}_]+";
const WORD = new RegExp(
  `\\p{Nd}+(?:[.,]\\p{Nd}+)+|${LETTERS}(?:['’]${LETTERS})*|[^\\p{L}\\p{N}_${SPACE}]`,
  "gu",
);
const MARKS = new RegExp(`[.!?…]+["'”’»)\\]]*(?=[${SPACE}]+([^${SPACE}]+))|\\n[${SPACE}]*\\n`, "gu");
const LAST_WORD = new RegExp(`[^${SPACE}]*$`, "u");
const INITIALS = /^(?:[\p{L}\p{No}\p{Nl}]|(?:\p{L}{1,2}\.-?)+\p{L}{1,2})$/u;

/** Whether marks end a sentence: not after an abbreviation, and before a small letter only ? and !. */
function endsSentence(marks, before, abbreviations) {
  const [end, next] = marks;
  if (next === undefined) return true; // an empty line
  if (/^[,;:)\]}%/=<>+.!?…]/u.test(next)) return false;
  if (/^["'“‘‹«„‚([{¿¡*_#–—-]*\p{Ll}/u.test(next)) return /^[?!]+$/.test(end) && !/^[-–—]/.test(next);
  if (!/^["'“‘‹«„‚([{¿¡*_#–—-]*[\p{L}\p{N}]/u.test(next)) return true;
  const word = before.match(LAST_WORD)[0].toLowerCase();
  return !/^\.[^.!?…]*$/.test(end) || !(INITIALS.test(word) || abbreviations.includes(word));
}

/** Return the words of a text, and the index of the first word of each sentence. */
function readText(text, abbreviations) {
  const sentences = [];
  let start = 0;
  for (const marks of text.matchAll(MARKS)) {
    if (!endsSentence(marks, text.slice(start, marks.index), abbreviations)) continue;
    const end = marks.index + marks[0].length;
    sentences.push(text.slice(start, end));
    start = end;
  }
  sentences.push(text.slice(start));

  const words = [];
  const starts = [];
  for (const sentence of sentences) {
    const found = sentence.match(WORD) || [];
    if (found.length) starts.push(words.length);
    words.push(...found);
  }
  return { words, starts };
}

// Rows: `labels` has null where nothing is predicted.

const framed = (setup, words) => [setup.first, ...words, setup.last].filter((word) => word !== null);
const withMarks = (words, marks) => words.map((word, position) => marks[position] ?? word);

function makeRow(title, input, fields) {
  const positions = input.map((_, position) => position);
  return { title, input, labelTitle: "labels", positions, segments: null, ...fields };
}

function selfAttention(row, reads) {
  const cells = row.input.map((_, i) => row.input.map((_, j) => reads(i, j)));
  return { title: "self-attention", rows: row.input, columns: row.input, reads: cells };
}

/** An encoder's row; the second segment starts at the position `second`. */
function encoderRow(setup, words, marks, second) {
  const head = setup.first === null ? 0 : 1;
  const input = framed(setup, withMarks(words, marks));
  const labels = input.map((_, position) => (position - head in marks ? words[position - head] : null));
  const segments = input.map((_, position) => (position < second ? 0 : 1));
  const row = makeRow("row", input, { labels, segments, original: words });
  return { rows: [row], grids: [selfAttention(row, () => true)] };
}

/** A decoder's row, whose first `prefix` positions read each other and have no label. */
function decoderRow(input, prefix) {
  const labels = input.map((_, position) => (position + 1 < prefix ? null : input[position + 1] ?? null));
  const row = makeRow("row", input, { labels });
  return { rows: [row], grids: [selfAttention(row, (i, j) => j <= i || j < prefix)] };
}

/** An encoder's row, and a decoder's that starts with `first` and predicts the target. */
function pair(source, target, first, offset = 0) {
  const encoder = makeRow("encoder", source, { labels: source.map(() => null) });
  const input = target.length ? [first, ...target.slice(0, -1)] : [];
  const decoder = makeRow("decoder", input, { labels: target, labelTitle: "target" });
  decoder.positions = decoder.positions.map((position) => position + offset);
  const cross = input.map(() => source.map(() => true));
  const grids = [
    { ...selfAttention(encoder, () => true), title: "encoder" },
    { ...selfAttention(decoder, (i, j) => j <= i), title: "decoder" },
    { title: "cross-attention", rows: input, columns: source, reads: cross },
  ];
  return { rows: [encoder, decoder], grids };
}

/** The damaged words as source, the complete text as target. */
const restored = (setup, noisy, words) => pair(framed(setup, noisy), [...words, setup.last], setup.start);

// Spans: adjacent marks are one span, a gap is an empty one.

function findSpans(count, { marks, gaps }) {
  const spans = [];
  for (let position = 0; position <= count; position++) {
    if (gaps.includes(position)) spans.push({ start: position, end: position });
    if (!(position in marks)) continue;
    if (position - 1 in marks) spans.at(-1).end = position + 1;
    else spans.push({ start: position, end: position + 1 });
  }
  return spans;
}

function replaceSpans(words, spans, sign) {
  const result = [];
  let done = 0;
  spans.forEach((span, number) => {
    result.push(...words.slice(done, span.start), sign(number));
    done = span.end;
  });
  return [...result, ...words.slice(done)];
}

const sentinel = (number) => `<extra_${number}>`;

/** The listed entries first, then the others in their order. */
function complete(order, count) {
  const all = Array.from({ length: count }, (_, index) => index);
  return [...order, ...all.filter((index) => !order.includes(index))];
}

const KERNELS = {
  causal_lm: (setup, { words }) => decoderRow(framed(setup, words), 1),

  prefix_lm: (setup, { words }, { cut }) => decoderRow(framed(setup, words), cut),

  masked_lm: (setup, { words }, { marks }) => encoderRow(setup, words, marks, Infinity),
  replaced_token_detection: (setup, { words }, { marks }) => encoderRow(setup, words, marks, Infinity),

  mass(setup, { words }, { marks }) {
    const marked = Object.keys(marks).map(Number);
    const inside = words.map((_, at) => at).filter((at) => marked.some((mark) => mark <= at) && marked.some((mark) => mark >= at));
    const filled = Object.fromEntries(inside.map((at) => [at, marks[at] ?? MASK]));
    const source = framed(setup, withMarks(words, filled));
    return pair(source, inside.map((at) => words[at]), source[inside[0]], inside[0] + 1);
  },

  permuted_lm(setup, { words }, { order }) {
    const result = encoderRow(setup, words, {}, Infinity);
    const [row] = result.rows;
    const ranks = row.input.map((_, position) => order.indexOf(position - 1) + 1);
    row.labels = ranks.map((rank) => (rank ? String(rank) : null));
    row.labelTitle = "predicted as number";
    result.grids = [selfAttention(row, (i, j) => ranks[j] < Math.max(ranks[i], 1))];
    return result;
  },

  next_sentence_prediction(setup, { words }, { cut, other, marks }, partner) {
    const second = other ? partner.words : words.slice(cut);
    const joined = [...words.slice(0, cut), setup.last, ...second];
    return { ...encoderRow(setup, joined, marks, cut + 2), answer: !other };
  },

  span_corruption(setup, { words }, choice) {
    const spans = findSpans(words.length, { ...choice, gaps: [] });
    const target = spans.flatMap((span, number) => [sentinel(number), ...words.slice(span.start, span.end)]);
    return pair(framed(setup, replaceSpans(words, spans, sentinel)), [...target, setup.last], setup.start);
  },

  text_infilling: (setup, { words }, choice) =>
    restored(setup, replaceSpans(words, findSpans(words.length, choice), () => MASK), words),

  denoising_autoencoding: (setup, { words }, { marks }) => restored(setup, withMarks(words, marks), words),

  token_deletion: (setup, { words }, { marks }) =>
    restored(setup, words.filter((_, position) => !(position in marks)), words),

  token_reordering: (setup, { words }, { order }) =>
    restored(setup, complete(order, words.length).map((position) => words[position]), words),

  sentence_reordering(setup, { words, starts }, { order }) {
    const sentence = (number) => words.slice(starts[number], starts[number + 1]);
    return restored(setup, complete(order, starts.length).flatMap(sentence), words);
  },

  document_rotation: (setup, { words }, { cut }) =>
    restored(setup, [...words.slice(cut), ...words.slice(0, cut)], words),
};
