// One sentence for the current point, and what to keep in mind when reading the table below it.

function verdict(data, values, order, against) {
  const { name } = data.models[order[0].model];
  const wrong = data.findings.some((item) => item.severity === "error" && item.models.includes(name));
  const warning = wrong ? [" Mind that the audit objects to the file of ", make("strong", {}, label(name)), "."] : [];
  return [...comparison(data, values, order, against), ...warning];
}

function comparison(data, values, order, against) {
  const name = (index) => make("strong", {}, label(data.models[index].name));
  const [best] = order;
  const opening = [`At ${pointText(values)}: `];
  if (order.length === 1) {
    return [...opening, name(best.model), ` scores ${fixed(best.value)} (${rangeText(best.low, best.high)}).`];
  }
  const joint = order.filter((result) => result.place === best.place);
  if (joint.length > 1) {
    return [...opening, ...listed(joint.map((result) => name(result.model))), " share the first place."];
  }
  const rivals = against.filter((item) => item.model !== best.model);
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

function scoresRemark(order, beta) {
  const few = Math.min(...order.filter((result) => !result.trusted).map((result) => result.effective));
  if (few === Infinity) return "";
  const why = beta === 0 ? "they rest on few queries" : "at this beta few queries carry the score";
  return `Dashed intervals cannot be trusted: ${why} (effectively ${whole(few)}).`;
}

const SCORE_COLUMNS = [
  "place", "model", "alpha", "beta", "score", "low", "high", "level", "trusted", "effective_queries",
  "deviation_over_seeds", "difference_to_best", "difference_low", "difference_high", "beyond_noise",
];

function saveScores(data, { alpha, beta }) {
  const against = data.models.length > 1 ? differences(data, alpha, beta) : [];
  const order = scores(data, alpha, beta).sort((a, b) => a.place - b.place || a.model - b.model);
  const rows = order.map((result) => {
    const item = against.find((difference) => difference.model === result.model) ?? {};
    return [
      result.place, data.models[result.model].name, alpha, beta, result.value, result.low, result.high, data.level,
      result.trusted, result.effective, result.std, item.value, item.low, item.high, item.beyond,
    ];
  });
  saveCsv("scores.csv", SCORE_COLUMNS, rows);
}
