// Why a model of rules puts the answer of a query where it does: the rules that lead to it, and to a better one.

function createReasons(data, state) {
  const element = make("section", { class: "card why", "aria-label": "Why", hidden: true });
  const draw = () => {
    const { why } = state.values;
    const found = why ? reasonsAt(data, why - 1) : [];
    element.hidden = !found.length;
    if (!found.length) return;
    const title = make("h4", { tabindex: "-1" }, "Why? ", label(found[0].question));
    const close = button("Close", () => {
      state.update({ why: 0 });
      find(`why-${why}`)?.focus();
    });
    const how = "Gain: by how much the score would fall without the rule. Alone: what one of its paths would add without other rules.";
    element.replaceChildren(title, make("p", { class: "remark" }, how), ...found.flatMap((one) => modelReasons(data, one)), make("p", { class: "actions" }, close));
  };
  return { element, view: { panel: "queries", needs: ["why"], draw } };
}

// Stands in the row of a query that a model of rules explains.
function reasonsColumn(data, state, reasons) {
  const cell = ({ row, target }) => {
    if (!reasonsAt(data, row).length) return "";
    const open = () => {
      state.update({ why: row + 1 });
      requestAnimationFrame(() => reasons.element.querySelector("h4")?.focus());
    };
    return button("Why?", open, { class: "go", id: `why-${row + 1}`, "aria-label": `Why is ${target} at its rank?` });
  };
  return { key: "reasons", title: "Rules", falls: true, cell };
}

function modelReasons(data, { model, seed, answer, best }) {
  const seeds = data.runsOf[model].length > 1 ? ` (seed ${seed})` : "";
  return [
    make("p", {}, modelName(data, model), seeds, " puts ", answerText(answer)),
    ...answerReasons(answer),
    ...(best ? [make("p", {}, "Its best answer that is not known is ", answerText(best)), ...answerReasons(best)] : []),
  ];
}

function answerText({ name, rank, ties, candidates }) {
  const tied = ties ? `, as ${plural(ties, "other")}` : "";
  return [make("strong", {}, label(name)), ` at rank ${RANK.format(rank)} of ${whole(candidates)}${tied}.`];
}

function answerReasons({ score, parts, rules, more }) {
  const sum = parts.map(([name, value]) => `${name} ${fixed(value, 2)}`).join(" + ");
  const others = more ? ` ${plural(more, "other rule leads", "other rules lead")} to it.` : "";
  const none = rules.length ? "" : " No rule leads to it.";
  return [
    make("p", { class: "remark" }, `Score ${fixed(score, 2)}${sum && ` = ${sum}`}.${none}${others}`),
    ...(rules.length ? [make("ul", { class: "reasons" }, rules.map(ruleItem))] : []),
  ];
}

function ruleItem({ rule, paths, gain, alone, path }) {
  const many = paths > 1 ? `one of ${whole(paths)} paths` : "path";
  return make("li", {}, make("code", {}, label(rule)),
    make("span", { class: "remark" }, `gain ${signed(gain, 2)}, alone ${signed(alone, 2)}, ${many}: `, label(path)));
}
