// Scores with intervals. A score is a ratio of sums, so its variance follows from how much each cluster of queries
// (the sides of one test triple) pulls at it: m/(m-1) sum_c (sum_{q in c} w (f - value) / sum w)^2. Training runs add
// the variance of their mean. Clusters of a random sample pull like all of them, each standing for several.

const REMARKS = {
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
    const noise = noiseOf(data, own.effective, [own.seeds], pullsOn(data, model, alpha, beta));
    return {
      model,
      value: own.value,
      std: own.std,
      ...around(own.value, noise.half, 0, 1),
      trusted: noise.doubt === null,
      effective: own.effective,
      place: 1 + models.filter((other) => other.value > own.value).length,
      remark: REMARKS[noise.doubt ?? (own.std === null || data.seeds !== "random" ? "none" : "seeds")] ?? null,
    };
  });
}

/** The ends of an interval, within what is possible; null where there is none. */
function around(value, half, least, most) {
  if (half === null) return { low: null, high: null };
  return { low: Math.max(least, value - half), high: Math.min(most, value + half) };
}

/** How far every model is from the best (never above 0), and whether that is beyond noise. */
export function differences(data, alpha, beta) {
  const models = data.models.map((_, model) => modelScore(data, model, alpha, beta));
  const [best] = byValue(models);
  return models.map((_, model) => ({ model, against: best, ...differenceOf(data, models, model, best, alpha, beta) }));
}

function byValue(models) {
  return models.map((_, model) => model).sort((one, other) => models[other].value - models[one].value || one - other);
}

function differenceOf(data, models, model, other, alpha, beta) {
  const [own, against] = [models[model], models[other]];
  const value = own.value - against.value;
  if (model === other) return { value, low: value, high: value, trusted: true, beyond: false };
  const effective = Math.min(own.effective, against.effective);
  const pulls = [model, other].map((one) => pullsOn(data, one, alpha, beta));
  const { band, doubt } = noiseOf(data, effective, [own.seeds, against.seeds], ...pulls);
  const trusted = doubt === null;
  return { value, ...around(value, band, -1, 1), trusted, beyond: trusted && Math.abs(value) > band };
}

/** Half the widths of the interval and of the band of a score, or of a difference of two, and why not to trust them. */
function noiseOf(data, effective, seeds, pulls, less = null) {
  const found = evidence();
  for (let c = 0; c < pulls.values.length; c += 1) {
    addCluster(found, less === null ? pulls.values[c] : pulls.values[c] - less.values[c], pulls.shares[c]);
  }
  const { variance, ...rest } = weighed(found);
  return widthsOf(data, { ...rest, variance: variance * (data.counted / data.queries), effective }, seeds);
}

/** What clusters tell of the variance, and whether enough of them make it up. */
function evidence() {
  return { clusters: 0, squares: 0, spread: 0, fourths: 0, together: 0 };
}

/** One cluster: how much it pulls, and its share of all weight; clusters without any do not count. */
function addCluster(found, pull, share) {
  if (share === 0) return;
  const square = (pull / share) ** 2;
  found.clusters += 1;
  found.squares += pull * pull;
  found.spread += share * square;
  found.fourths += share * square * square;
  found.together += share * share;
}

/** The variance; the effective number of clusters, and the same divided by the kurtosis of what they deviate. */
function weighed({ clusters, squares, spread, fourths, together }) {
  const variance = squares * (clusters / (clusters - 1));
  return { clusters, variance, effectiveClusters: 1 / together, varying: (spread * spread) / (fourths * together) };
}

function widthsOf(data, { clusters, variance, effectiveClusters, varying, effective }, seeds) {
  if (clusters < 2) return { half: null, band: null, doubt: "single" };
  const widths = spreadWith(data, variance, data.seeds === "random" ? seeds : []);
  const { trust } = data;
  if (effective < trust.queries || effectiveClusters < trust.clusters) return { ...widths, doubt: "queries" };
  if (variance === 0) return { ...widths, doubt: "same" };
  return { ...widths, doubt: varying < trust.varying ? "varying" : null };
}

/** The standard error with the part of the seeds, times quantiles of the t distribution (by Satterthwaite): those of
 * an interval for one value, and those of a band that holds for all models and the whole map at once. */
function spreadWith(data, variance, seeds) {
  const total = seeds.reduce((sum, part) => sum + part.variance, variance);
  const spread = seeds.reduce((sum, part) => sum + part.variance ** 2 / part.freedom, 0);
  const freedom = spread > 0 ? total ** 2 / spread : Infinity;
  const [half, band] = [data.arrays.quantiles, data.arrays.bands].map((table) => quantile(table, freedom));
  return { half: half * Math.sqrt(total), band: band * Math.sqrt(total) };
}

/** From a table over 1 / freedom, of which a quantile is a smooth function. */
function quantile(table, freedom) {
  const at = Math.min(1, 1 / freedom) * (table.length - 1);
  const below = Math.min(Math.floor(at), table.length - 2);
  return table[below] + (at - below) * (table[below + 1] - table[below]);
}

/** How much every cluster pulls at the score of a model, and its share of all weight. */
function pullsOn(data, model, alpha, beta) {
  const zeros = () => new Float64Array(data.clusters);
  const pulls = kept(data, `pulls ${model}`, () => ({ alpha: NaN, beta: NaN, values: zeros(), shares: zeros() }));
  if (pulls.alpha === alpha && pulls.beta === beta) return pulls;
  pulls.values.fill(0);
  pulls.shares.fill(0);
  const runs = data.runsOf[model];
  runs.forEach(({ rows }) => addPulls(pulls, rows, data.arrays.triple, alpha, beta, 1 / runs.length));
  return Object.assign(pulls, { alpha, beta });
}

function addPulls({ values, shares }, rows, triple, alpha, beta, part) {
  const lost = losses(rows, alpha);
  const weight = weights(rows, beta);
  const centre = meanLoss(rows, alpha, beta);
  const factor = part / weight.total;
  for (let q = 0; q < rows.length; q += 1) {
    const share = weight.values[q] * factor;
    shares[triple[q]] += share;
    values[triple[q]] += share * (centre - lost[q]);
  }
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
    const led = (model) => differenceOf(data, models, model, best, alpha, beta).beyond;
    beyond[a][b] = Number(others.length > 0 && others.every(led));
  }));
  return { scores: grid, winner, beyond };
}

/** How many ranks of a model are in each of the paper's bins, the mean over its seeds. */
export function histogram(data, model) {
  const { bins, counts } = data.histogram;
  const own = counts.filter((_, run) => data.runs[run].model === model);
  return { bins, counts: bins.map((_, bin) => average(own.map((count) => count[bin]))) };
}
