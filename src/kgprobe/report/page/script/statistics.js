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

/** PROBE(alpha, beta) of every model with its interval and its place, in the order of the models. */
export function scores(data, alpha, beta) {
  const models = data.models.map((_, model) => modelScore(data, model, alpha, beta));
  return models.map((own, model) => {
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

/** The ends of an interval, within what is possible; null where there is none. */
function around(value, half, least, most) {
  if (!Number.isFinite(half)) return { low: null, high: null };
  return { low: Math.max(least, value - half), high: Math.min(most, value + half) };
}

/** How far every model is from the best (never above 0), its band, and whether that is beyond noise. */
export function differences(data, alpha, beta) {
  const models = data.models.map((_, model) => modelScore(data, model, alpha, beta));
  const [best] = byValue(models);
  return models.map((_, model) => ({ model, against: best, ...differenceOf(data, models, model, best, alpha, beta) }));
}

/** The models from the best; those without a value come last. */
function byValue(models) {
  const values = models.map(({ value }) => (Number.isFinite(value) ? value : -1));
  return models.map((_, model) => model).sort((one, other) => values[other] - values[one] || one - other);
}

function differenceOf(data, models, model, other, alpha, beta) {
  const [own, against] = [models[model], models[other]];
  const value = own.value - against.value;
  if (model === other) return { value, low: value, high: value, trusted: true, beyond: false };
  const [pulls, less] = [model, other].map((one) => pullsOn(data, one, alpha, beta));
  const found = weighed(clustersOf(pulls, less), [], Math.max(own.value, against.value), data);
  const doubt = doubtOf(data, found, Math.min(own.effective, against.effective));
  const table = within({ alpha, beta }, RANGES.narrow) ? data.arrays.bands : data.arrays.wideBands;
  const band = found.clusters < 2 ? null : bandOf(table, found, data.seeds === "random" ? [own.seeds, against.seeds] : []);
  const trusted = doubt === null;
  return { value, ...around(value, band, -1, 1), trusted, beyond: trusted && Math.abs(value) > band };
}

/** What clusters tell of the variance, and whether enough of them make it up. */
function evidence() {
  return { clusters: 0, sizes: 0, squares: 0, fourths: 0, spread: 0, spreadSquares: 0, together: 0 };
}

/** One cluster: how much it pulls, and its share of all weight; clusters without any do not count. */
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
 * The variance and its degrees of freedom, that of every run (from the squares of what clusters pull at it), and the
 * effective number of clusters divided by the kurtosis of what they deviate.
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

/** Why not to trust what clusters tell; null where it can be trusted. */
function doubtOf({ trust }, { clusters, varies, varying }, effective) {
  if (clusters < 2) return clusters === 0 ? "nothing" : "single";
  if (effective < trust.queries) return "queries"; // of 200 queries, at least 100 triples: both sides of each
  if (!varies) return "same";
  return varying < trust.varying ? "varying" : null;
}

/** The interval of a score, and why not to trust it. */
function intervalOf(data, { value, seeds, effective }, found) {
  const table = data.arrays.quantiles;
  const random = data.seeds === "random";
  const half = random ? halfOverRuns(table, found, seeds) : quantile(table, Infinity) * Math.sqrt(found.variance);
  return { ...around(value, found.clusters < 2 ? null : half, 0, 1), doubt: doubtOf(data, found, effective) };
}

/**
 * Half the interval about the method, as `kgprobe compare` has it: the variance over queries and that over runs, less
 * what both contain, with degrees of freedom by Satterthwaite; never narrower than the runs alone demand.
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
 * Half the band of the decision map, which holds for all models and the whole map at once. The spread of the runs of
 * two models counts as known no better than that of the fewer runs.
 */
function bandOf(table, { variance }, seeds) {
  const total = seeds.reduce((sum, part) => sum + part.variance, variance);
  const freedom = Math.min(...seeds.map((part) => part.freedom));
  const parts = seeds.map((part) => ({ variance: part.variance, freedom }));
  return quantile(table, satterthwaite(total, parts)) * Math.sqrt(total);
}

/** The degrees of freedom of a variance that is made of parts. */
function satterthwaite(total, parts) {
  const spread = parts.reduce((sum, part) => sum + part.variance ** 2 / part.freedom, 0);
  return spread > 0 ? total ** 2 / spread : Infinity;
}

/** From a table over 1 / freedom, of which a quantile is a smooth function. */
function quantile(table, freedom) {
  const at = Math.min(1, 1 / freedom) * (table.length - 1);
  const below = Math.min(Math.floor(at), table.length - 2);
  return table[below] + (at - below) * (table[below + 1] - table[below]);
}

/** How much every cluster pulls at the score of a model, its share of all weight; for every run the sum of squares. */
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

/** Adds what clusters pull at one run; returns the sum of its squares. */
function addRun(values, own, part) {
  let squares = 0;
  for (let c = 0; c < own.length; c += 1) {
    values[c] += own[c] * part;
    squares += own[c] * own[c];
  }
  return squares;
}

/** Scores over a grid, [model][alpha][beta]; the best model of every point, and whether it leads beyond noise. */
export function surface(data, alphas, betas) {
  const grid = data.models.map(() => alphas.map(() => new Float64Array(betas.length)));
  const winner = alphas.map(() => new Int32Array(betas.length));
  const beyond = alphas.map(() => new Uint8Array(betas.length));
  alphas.forEach((alpha, a) => betas.forEach((beta, b) => {
    const models = data.models.map((_, model) => modelScore(data, model, alpha, beta));
    const [best, ...others] = byValue(models);
    models.forEach((own, model) => { grid[model][a][b] = own.value; });
    winner[a][b] = best;
    const rivals = others.filter((model) => Number.isFinite(models[model].value));
    const led = (model) => differenceOf(data, models, model, best, alpha, beta).beyond;
    beyond[a][b] = Number(rivals.length > 0 && rivals.every(led));
  }));
  return { scores: grid, winner, beyond };
}

/** How many ranks of a model are in each of the paper's bins, the mean over its seeds. */
export function histogram(data, model) {
  const { bins, counts } = data.histogram;
  const own = counts.filter((_, run) => data.runs[run].model === model);
  return { bins, counts: bins.map((_, bin) => average(own.map((count) => count[bin]))) };
}
