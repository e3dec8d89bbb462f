// Title line, theme, and the command that made the page.

function createHeader(data, state) {
  const { facts, origin } = data.runs ? aboutRanks(data) : aboutWorlds(data);
  find("facts").replaceChildren(...facts.map(([name, text]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, text))));
  find("footer").replaceChildren(
    make("p", {}, `Written by kgprobe ${data.version}${data.written ? ` on ${data.written}` : ""}. `, origin),
    data.command ? commandLine(data.command) : "",
  );
  // The hash is the state of the page, so the link moves the focus itself.
  find("skip").addEventListener("click", (event) => {
    event.preventDefault();
    find("results").focus();
  });
  const theme = find("theme");
  theme.addEventListener("change", () => state.update({ theme: theme.value }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.changed(["theme"]));
  const draw = () => {
    theme.value = state.values.theme;
    document.documentElement.dataset.theme = state.values.theme;
  };
  return { needs: ["theme"], live: true, draw };
}

function aboutRanks(data) {
  const facts = [
    ["Graph", data.graph ? label(data.graph.name) : "not given"],
    ["Models", whole(data.models.length)],
    ["Queries", whole(data.queries)],
    ["Ranks", data.exact ? "exact" : "compressed, see Protocol"],
  ];
  const origin = `Scores on this page are computed here, from the ${data.exact ? "ranks" : "counts"} inside this file; `
    + "tested differences and the audit were computed when it was written.";
  return { facts, origin };
}

function aboutWorlds({ openWorld }) {
  const models = new Set(openWorld.flatMap((world) => world.models));
  const points = openWorld.reduce((total, world) => total + world.model.length, 0);
  const facts = [["Worlds", whole(openWorld.length)], ["Models", whole(models.size)], ["Points", whole(points)]];
  return { facts, origin: "All statistics on it were computed then." };
}

function commandLine(command) {
  const code = make("code", { tabindex: "0" }, command);
  const said = make("span", { role: "status", class: "remark" });
  const copy = button("Copy the command", async () => {
    const copied = await copyText(command, code);
    said.textContent = copied ? "Copied." : "Selected: copy it with the keyboard.";
  });
  return make("div", { class: "command" }, code, make("p", { class: "actions" }, copy, " ", said));
}

// Some browsers give no clipboard to a file; the text is then at least selected.
async function copyText(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(element);
    return document.execCommand("copy");
  }
}
