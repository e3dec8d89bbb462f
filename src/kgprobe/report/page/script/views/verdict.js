// One sentence for the current point, and what to keep in mind when reading the table below it.

function verdict(data, values, order, against) {
  if (order[0].place === null) return ["No query counts: each has a single candidate, so there are no scores."];
  const first = order.filter((result) => result.place === 1).map((result) => data.models[result.model].name);
  return [...comparison(data, values, order, against), ...first.flatMap((name) => caution(data, name))];
}

function caution(data, name) {
  const verb = findingsOf(data, name, "error") ? "objects to" : "warns about";
  const marked = auditMark(data, name) !== "";
  return marked ? [` Mind that the audit ${verb} the file of `, make("strong", {}, label(name)), "."] : [];
}

function comparison(data, values, order, against) {
  const name = (index) => make("strong", {}, label(data.models[index].name));
  const [best] = order;
  const opening = [`At ${pointText(values)}: `];
  if (order.length === 1 || order[1].place === null) {
    return [...opening, name(best.model), ` scores ${fixed(best.value)} (${rangeText(best.low, best.high)}).`];
  }
  const joint = order.filter((result) => result.place === best.place);
  if (joint.length > 1) {
    return [...opening, ...listed(joint.map((result) => name(result.model))), " share the first place."];
  }
  const rivals = against.filter((item) => item.model !== best.model && Number.isFinite(item.value));
  const close = order.filter((result) => rivals.some((item) => item.model === result.model && !item.beyond));
  const lead = [...opening, name(best.model), " is best; its lead over "];
  if (!close.length) {
    return rivals.length === 1
      ? [...lead, name(rivals[0].model), " is beyond noise."]
      : [...lead, `${rivals.length === 2 ? "both" : `all ${rivals.length}`} others is beyond noise.`];
  }
  const most = 3;
  const named = close.slice(0, most).map((result) => name(result.model));
  if (close.length > most) named.push(plural(close.length - most, "other model"));
  return [...lead, ...listed(named), " is within noise."];
}

// Why intervals cannot be trusted: for every reason the models, unless it holds for all of them.
function scoresRemark(data, order) {
  const doubtful = order.filter((result) => !result.trusted);
  const reasons = [...new Set(doubtful.map((result) => result.remark))];
  const dashed = doubtful.some((result) => result.low < result.high) ? ["Dashed intervals cannot be trusted. "] : [];
  return dashed.concat(reasons.flatMap((reason) => {
    const own = doubtful.filter((result) => result.remark === reason);
    const names = listed(own.map((result) => label(data.models[result.model].name)));
    return own.length === order.length ? [reason, " "] : [...names, ": ", reason, " "];
  }));
}

const SCORE_COLUMNS = [
  "place", "model", "alpha", "beta", "score", "low", "high", "level", "trusted", "effective_queries",
  "deviation_over_seeds", "difference_to_best", "band_low", "band_high", "beyond_noise",
];

function saveScores(data, { alpha, beta }) {
  const against = data.models.length > 1 ? differences(data, alpha, beta) : [];
  const order = scores(data, alpha, beta).sort(byPlace);
  const rows = order.map((result) => {
    const item = against.find((difference) => difference.model === result.model) ?? {};
    return [
      result.place, data.models[result.model].name, alpha, beta, result.value, result.low, result.high, data.level,
      result.trusted, result.effective, result.std, item.value, item.low, item.high, item.beyond,
    ];
  });
  saveCsv("scores.csv", SCORE_COLUMNS, rows);
}
