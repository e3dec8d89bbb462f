// Scores with confidence intervals. A score is a ratio of sums; its variance is that of the influence of each cluster of
// queries (the sides of one test triple): m/(m-1) sum_c (sum_{q in c} w (f - value) / sum w)^2. Several training runs add
// the variance of their mean. The influence of the clusters of a random sample is scaled to all clusters.

const ROUNDING = 1e-12; // total influence, relative to the value, below which the variance is zero

// The plane of the paper, and a wider one; each has its own confidence band.
const RANGES = {
  narrow: { alpha: [-1, 1], beta: [0, 0.8] },
  wide: { alpha: [-5, 5], beta: [-2, 2] },
};

function within(values, ranges) {
  return Object.entries(ranges).every(([name, [low, high]]) => values[name] >= low && values[name] <= high);
}

const REMARKS = {
  nothing: "No query counts: each has a single candidate.",
  single: "A single test triple has no interval.",
  same: "All test triples pull alike: how the score may vary is not known.",
  queries: "The interval rests on too few effective queries to be trusted.",
  varying: "A few test triples make up most of the variation: the interval cannot be trusted.",
  seeds: "The interval covers variation between queries and between training runs.",
};

/** The score of each shown model, by its index. */
function scoresByModel(data, alpha, beta) {
  const models = [];
  data.shown.forEach((model) => { models[model] = modelScore(data, model, alpha, beta); });
  return models;
}

/** PROBE(alpha, beta) of each shown model with its interval and its place. */
export function scores(data, alpha, beta) {
  const models = scoresByModel(data, alpha, beta);
  return data.shown.map((model) => {
    const own = models[model];
    const pulls = pullsOn(data, model, alpha, beta);
    const { low, high, doubt } = intervalOf(data, own, weighed(clustersOf(pulls), pulls.squares, own.value, data));
    return {
      model,
      value: own.value,
      std: own.std,
      low,
      high,
      trusted: doubt === null,
      effective: own.effective,
      place: Number.isFinite(own.value) ? 1 + models.filter((other) => other.value > own.value).length : null,
      remark: REMARKS[doubt ?? (own.std === null || data.seeds !== "random" ? "none" : "seeds")] ?? null,
    };
  });
}

/** The limits of an interval, clipped to the possible range; null if there is none. */
function around(value, half, least, most) {
  if (!Number.isFinite(half)) return { low: null, high: null };
  return { low: Math.max(least, value - half), high: Math.min(most, value + half) };
}

/** The difference of each model to the best (at most 0), its band, and whether it is significant. */
export function differences(data, alpha, beta) {
  const models = scoresByModel(data, alpha, beta);
  const [best] = byValue(data, models);
  return data.shown.map((model) => (
    { model, against: best, ...differenceOf(data, models, model, best, alpha, beta) }));
}

/** The shown models in order, best first; those without a value are last. */
function byValue({ shown }, models) {
  const values = models.map(({ value }) => (Number.isFinite(value) ? value : -1));
  return [...shown].sort((one, other) => values[other] - values[one] || one - other);
}

/** The shown models, best first. */
export function bestFirst(data, alpha, beta) {
  return byValue(data, scoresByModel(data, alpha, beta));
}

function differenceOf(data, models, model, other, alpha, beta) {
  const [own, against] = [models[model], models[other]];
  const value = own.value - against.value;
  if (model === other) return { value, low: value, high: value, trusted: true, beyond: false };
  if (data.models[model].untested.includes(other)) { // their candidate sets differ
    return { value, low: null, high: null, trusted: false, beyond: false, untested: true };
  }
  const [pulls, less] = [model, other].map((one) => pullsOn(data, one, alpha, beta));
  const found = weighed(clustersOf(pulls, less), [], Math.max(own.value, against.value), data);
  const doubt = doubtOf(data, found, Math.min(own.effective, against.effective));
  const table = within({ alpha, beta }, RANGES.narrow) ? data.arrays.bands : data.arrays.wideBands;
  const band = found.clusters < 2 ? null : bandOf(table, found, data.seeds === "random" ? [own.seeds, against.seeds] : []);
  const trusted = doubt === null;
  return { value, ...around(value, band, -1, 1), trusted, beyond: trusted && Math.abs(value) > band };
}

/** Accumulator of variance statistics over clusters. */
function evidence() {
  return { clusters: 0, sizes: 0, squares: 0, fourths: 0, spread: 0, spreadSquares: 0, together: 0 };
}

/** Adds a cluster by its influence and its share of the weight; clusters without weight are ignored. */
function addCluster(found, pull, share) {
  if (share === 0) return;
  const [square, deviation] = [pull * pull, (pull / share) ** 2];
  found.clusters += 1;
  found.sizes += Math.abs(pull);
  found.squares += square;
  found.fourths += square * square;
  found.spread += share * deviation;
  found.spreadSquares += share * deviation * deviation;
  found.together += share * share;
}

function clustersOf(pulls, less = null) {
  const found = evidence();
  for (let c = 0; c < pulls.values.length; c += 1) {
    addCluster(found, less === null ? pulls.values[c] : pulls.values[c] - less.values[c], pulls.shares[c]);
  }
  return found;
}

/**
 * The variance and its degrees of freedom, the variance of each run (from the squared influences of its clusters), and
 * the effective number of clusters divided by the kurtosis of their deviations.
 */
function weighed(found, runSquares, scale, { counted, queries } = { counted: 1, queries: 1 }) {
  const { clusters, sizes, squares, fourths, spread, spreadSquares, together } = found;
  const factor = (clusters / (clusters - 1)) * (counted / queries);
  const varies = sizes > ROUNDING * Math.abs(scale);
  const lacking = fourths / (squares * squares) - 1 / clusters;
  return {
    clusters,
    variance: varies ? squares * factor : 0,
    freedom: Math.max(lacking > 0 ? 2 / lacking : Infinity, 1),
    runVariances: runSquares.map((own) => own * factor),
    varies,
    varying: (spread * spread) / (spreadSquares * together),
  };
}

/** The reason why an interval is unreliable; null if it is reliable. */
function doubtOf({ trust }, { clusters, varies, varying }, effective) {
  if (clusters < 2) return clusters === 0 ? "nothing" : "single";
  if (effective < trust.queries) return "queries"; // of 200 queries, at least 100 triples: both sides of each
  if (!varies) return "same";
  return varying < trust.varying ? "varying" : null;
}

/** The interval of a score, and the reason if it is unreliable. */
function intervalOf(data, { value, seeds, effective }, found) {
  const table = data.arrays.quantiles;
  const random = data.seeds === "random";
  const half = random ? halfOverRuns(table, found, seeds) : quantile(table, Infinity) * Math.sqrt(found.variance);
  return { ...around(value, found.clusters < 2 ? null : half, 0, 1), doubt: doubtOf(data, found, effective) };
}

/**
 * Half the interval for random seeds, as in `kgprobe compare`: the variance over queries plus that over runs, minus
 * their common part, with Satterthwaite degrees of freedom; at least as wide as the interval over runs alone.
 */
function halfOverRuns(table, { variance, freedom, runVariances }, seeds) {
  const runs = runVariances.length;
  const apart = runVariances.reduce((sum, own) => sum + own, 0) - runs * variance;
  const both = Math.max(apart, 0) / (runs * (runs - 1));
  const parts = [{ variance, freedom }];
  if (seeds.variance > both) parts.push(seeds, { variance: both, freedom: seeds.freedom * freedom });
  const total = variance + Math.max(seeds.variance - both, 0);
  const alone = quantile(table, seeds.freedom) * Math.sqrt(seeds.variance);
  return Math.max(quantile(table, satterthwaite(total, parts)) * Math.sqrt(total), alone);
}

/**
 * Half the simultaneous band of the decision map, over all models and the whole map. The degrees of freedom of two
 * models are those of the model with fewer runs.
 */
function bandOf(table, { variance }, seeds) {
  const total = seeds.reduce((sum, part) => sum + part.variance, variance);
  const freedom = Math.min(...seeds.map((part) => part.freedom));
  const parts = seeds.map((part) => ({ variance: part.variance, freedom }));
  return quantile(table, satterthwaite(total, parts)) * Math.sqrt(total);
}

/** Satterthwaite degrees of freedom of a sum of variances. */
function satterthwaite(total, parts) {
  const spread = parts.reduce((sum, part) => sum + part.variance ** 2 / part.freedom, 0);
  return spread > 0 ? total ** 2 / spread : Infinity;
}

/** Linear interpolation in a table of quantiles over 1 / degrees of freedom. */
function quantile(table, freedom) {
  const at = Math.min(1, 1 / freedom) * (table.length - 1);
  const below = Math.min(Math.floor(at), table.length - 2);
  return table[below] + (at - below) * (table[below + 1] - table[below]);
}

/** The influence of each cluster on the score of a model, its share of the weight, and per run the sum of squares. */
function pullsOn(data, model, alpha, beta) {
  const zeros = () => new Float64Array(data.clusters);
  const pulls = kept(data, `pulls ${model}`, () => ({ alpha: NaN, beta: NaN, values: zeros(), shares: zeros() }));
  if (pulls.alpha === alpha && pulls.beta === beta) return pulls;
  pulls.values.fill(0);
  pulls.shares.fill(0);
  const own = kept(data, "pulls of a run", zeros);
  const runs = data.runsOf[model];
  const squares = runs.map(({ rows }) => {
    addPulls(own.fill(0), pulls.shares, rows, data.arrays.triple, alpha, beta, 1 / runs.length);
    return addRun(pulls.values, own, 1 / runs.length);
  });
  return Object.assign(pulls, { alpha, beta, squares });
}

function addPulls(own, shares, rows, triple, alpha, beta, part) {
  const lost = losses(rows, alpha);
  const weight = weights(rows, beta);
  const centre = meanLoss(rows, alpha, beta);
  for (let q = 0; q < rows.length; q += 1) {
    const share = weight.values[q] / weight.total;
    shares[triple[q]] += share * part;
    own[triple[q]] += share * (centre - lost[q]);
  }
}

/** Adds the influence of the clusters on one run; returns the sum of their squares. */
function addRun(values, own, part) {
  let squares = 0;
  for (let c = 0; c < own.length; c += 1) {
    values[c] += own[c] * part;
    squares += own[c] * own[c];
  }
  return squares;
}

/** Scores over a grid, [model][alpha][beta]; the best model at each point, and whether its lead is significant. */
export function surface(data, alphas, betas) {
  const grid = [];
  data.shown.forEach((model) => { grid[model] = alphas.map(() => new Float64Array(betas.length)); });
  const winner = alphas.map(() => new Int32Array(betas.length));
  const beyond = alphas.map(() => new Uint8Array(betas.length));
  alphas.forEach((alpha, a) => betas.forEach((beta, b) => {
    const models = scoresByModel(data, alpha, beta);
    const [best, ...others] = byValue(data, models);
    models.forEach((own, model) => { grid[model][a][b] = own.value; });
    winner[a][b] = best;
    const rivals = others.filter((model) => Number.isFinite(models[model].value));
    const led = (model) => differenceOf(data, models, model, best, alpha, beta).beyond;
    beyond[a][b] = Number(rivals.length > 0 && rivals.every(led));
  }));
  return { scores: grid, winner, beyond };
}

/** The number of ranks of a model in each of the paper's bins, averaged over its seeds. */
export function histogram(data, model) {
  const { bins, counts } = data.histogram;
  const own = data.filtered
    ? data.runsOf[model].map(({ rows }) => countedRanks(data, rows))
    : counts.filter((_, run) => data.runs[run].model === model);
  return { bins, counts: bins.map((_, bin) => average(own.map((count) => count[bin]))) };
}

function countedRanks({ arrays, histogram: { bins, limits } }, { rank, size, length }) {
  const binOf = Int32Array.from(arrays.ranks, (own) => limits.filter((limit) => own > limit).length);
  const counts = bins.map(() => 0);
  for (let q = 0; q < length; q += 1) counts[binOf[rank[q]]] += Number(arrays.candidates[size[q]] > 1);
  return counts;
}
