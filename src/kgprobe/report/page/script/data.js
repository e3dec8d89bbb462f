// The data of the page, read-only after opening.
//
// Rows are queries: all of them, or a sample where the ranks were compressed into cells (data.exact is false then).
// The first `counted` rows are all queries or a random sample of them; later rows are only shown in the table.
// `shown` are the indices of the models to compare. A selection of rows and models is an object of the same form.

const ARRAY_TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f8: Float64Array };
const ALIGNMENT = 8;

/** Parses the embedded data: base64 of gzip of a header and typed arrays. */
export async function openData(base64text) {
  const content = await unzipped(bytesOf(base64text));
  const start = ALIGNMENT + new DataView(content).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(content, ALIGNMENT, start - ALIGNMENT)));
  const arrays = {};
  for (const [name, [type, offset, length, stepped]] of Object.entries(header.arrays)) {
    arrays[name] = new ARRAY_TYPES[type](content, start + offset, length);
    if (stepped) accumulate(arrays[name]);
  }
  const data = { ...header, arrays };
  return data.runs ? openRanks(data) : data;
}

/** Adds what is derived from ranks; an open-world page has none. */
function openRanks(data) {
  const { arrays } = data;
  data.entities ??= Array.from(arrays.entities, String);
  data.relations ??= Array.from(arrays.relations, String);
  data.rows = arrays.triple.length;
  data.counted ??= data.rows;
  data.clusters = arrays.head.length;
  data.kept = new Map(); // cache of computed values
  data.names = { kept: new Map() }; // the same for all selections
  data.shown = data.models.map((_, model) => model);
  data.runs = data.runs.map((run) => openRun(data, run));
  data.runsOf = data.models.map((_, model) => data.runs.filter((run) => run.model === model));
  return data;
}

function bytesOf(base64text) {
  const text = atob(base64text.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function unzipped(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function accumulate(array) {
  for (let i = 1; i < array.length; i += 1) array[i] += array[i - 1];
}

/** The result of `make`, cached by key. */
function kept(data, key, make) {
  if (!data.kept.has(key)) data.kept.set(key, make());
  return data.kept.get(key);
}

/** A run: its rows and, if ranks were compressed, its cells in the same format. */
function openRun(data, run) {
  const rows = openRows(data, run);
  const compressed = run.cells !== undefined;
  return { model: run.model, rows, whole: compressed ? openCells(data, run.cells) : rows, metrics: run.metrics };
}

/** For each row the codes of its rank, candidate count and popularity in tables of distinct values. */
function openRows(data, run) {
  const { arrays } = data;
  const { epsilon } = data.models[run.model];
  const weighed = `rows ${run.popularity} ${run.candidates} ${epsilon}`;
  return {
    length: data.counted,
    rank: arrays[`rank${run.rank}`],
    size: arrays[`candidates${run.candidates}`],
    popularity: epsilon && arrays[`popularity${run.popularity}`],
    count: null,
    powers: kept(data, "powers of rows", () => powersOf(arrays.ranks, arrays.candidates)),
    rarity: epsilon && kept(data, `rarity ${epsilon}`, () => rarityOf(popularityLogs(arrays, epsilon))),
    // Runs with the same popularity and candidates share their weights.
    weight: kept(data, weighed, () => freshWeight(data.counted)),
    ...freshLosses(),
  };
}

/** Caches of what was computed last. */
function freshWeight(length) {
  return { beta: NaN, values: new Float64Array(length) };
}

function freshLosses() {
  return { lost: { alpha: NaN, values: null }, mean: { alpha: NaN, beta: NaN, loss: NaN } };
}

/** For each cell its rank, its stratum (candidate count and popularity) and its number of queries. */
function openCells(data, { cells, strata }) {
  const { arrays } = data;
  const stratum = arrays[`cellStratum${cells}`];
  return {
    length: stratum.length,
    rank: arrays[`cellRank${cells}`],
    size: stratum,
    popularity: data.hasPopularity ? stratum : null,
    count: arrays[`cellCount${cells}`],
    powers: kept(data, `powers of strata ${strata}`, () => powersOf(arrays.cellRanks, arrays[`stratumSize${strata}`])),
    rarity: kept(data, `rarity of strata ${strata}`, () => rarityOf(arrays[`stratumLog${strata}`])),
    weight: freshWeight(stratum.length),
    ...freshLosses(),
  };
}

function powersOf(ranks, sizes) {
  const logSize = Float64Array.from(sizes, Math.log);
  return {
    alpha: NaN,
    logRank: Float64Array.from(ranks, Math.log),
    logSize,
    gain: new Float64Array(ranks.length),
    scale: new Float64Array(sizes.length),
    most: extremes(logSize)[1],
  };
}

/** The log of (epsilon_e + delta(e)) (epsilon_r + delta(r|e)) for each distinct pair of popularities. */
function popularityLogs({ entityPopularity, relationPopularity }, [ofEntity, ofRelation]) {
  return entityPopularity.map((own, i) => Math.log(own + ofEntity) + Math.log(relationPopularity[i] + ofRelation));
}

function rarityOf(logs) {
  const [least, most] = extremes(logs);
  return { beta: NaN, logs, least, most, weights: new Float64Array(logs.length) };
}

function extremes(numbers) {
  let [least, most] = [Infinity, -Infinity];
  for (let i = 0; i < numbers.length; i += 1) {
    if (numbers[i] < least) least = numbers[i];
    if (numbers[i] > most) most = numbers[i];
  }
  return [least, most];
}

// Selections: the queries of a relation, a side and a popularity band, and the models that are not hidden.

const ALL = -1;

/** The chosen part of the data; the same object as long as the choice is the same. */
export function selected(data, { relation = ALL, side = ALL, band = ALL, hidden = [] }) {
  const rows = filtered(data, [relation, side, band]);
  if (!hidden.length) return rows;
  return latest(rows, "shown", hidden.join(), () => {
    const shown = data.shown.filter((model) => !hidden.includes(model));
    return { ...rows, shown, kept: new Map() };
  });
}

/** The result of `make`, cached until the key changes. */
function latest(data, name, key, make) {
  if (data.kept.get(name)?.key !== key) data.kept.set(name, { key, value: make() });
  return data.kept.get(name).value;
}

function filtered(data, choice) {
  if (choice.every((code) => code === ALL)) return data;
  return latest(data, "filtered", choice.join(), () => {
    const rows = rowsOf(data, choice);
    const counted = rows.findLastIndex((row) => row < data.counted) + 1;
    const picked = new Map(); // what several runs share stays shared
    const once = (key, make) => picked.get(key) ?? picked.set(key, make()).get(key);
    const pick = (codes) => codes && once(codes, () => codes.constructor.from(rows, (row) => codes[row]));
    const runs = data.runs.map((run) => {
      const block = {
        ...run.rows,
        length: counted,
        rank: pick(run.rows.rank),
        size: pick(run.rows.size),
        popularity: pick(run.rows.popularity),
        weight: once(run.rows.weight, () => freshWeight(counted)),
        ...freshLosses(),
      };
      return { model: run.model, rows: block, whole: block };
    });
    const { triple, tailSide, row } = data.arrays;
    return {
      ...data,
      arrays: { ...data.arrays, triple: pick(triple), tailSide: pick(tailSide), row: row ? pick(row) : rows },
      rows: rows.length,
      counted,
      queries: counted, // of compressed ranks only a sample can be filtered
      runs,
      runsOf: data.models.map((_, model) => runs.filter((run) => run.model === model)),
      filtered: true,
      kept: new Map(),
    };
  });
}

/** The rows with these codes, of all rows. */
function rowsOf(data, [relation, side, band]) {
  const { triple, tailSide, relation: relations, band: bands } = data.arrays;
  const { popularity } = data.runs[0].rows;
  const rows = new Int32Array(data.rows);
  let count = 0;
  for (let row = 0; row < data.rows; row += 1) {
    const chosen = (relation === ALL || relations[triple[row]] === relation)
      && (side === ALL || tailSide[row] === side)
      && (band === ALL || bands[popularity[row]] === band);
    if (chosen) rows[count++] = row;
  }
  return rows.slice(0, count);
}
