/* The table of trials: sorted, filtered, a hundred rows at a time, and the same rows of HTML each time. */
view.trials = (() => {
  "use strict";
  const ROWS = 100;
  const { by, make, number, show } = view;
  const head = by("table").tHead.rows[0];
  const body = by("table").tBodies[0];
  let columns = [];  // {name, of: (trial) => value, numeric}
  let sorted = { name: "trial", up: false };
  let first = 0;
  let all = [];
  let found = [];
  let onPick = () => {};

  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    if (!Number.isNaN(x) || !Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return show(a).localeCompare(show(b));
  };
  const isEmpty = (value) => value === null || value === undefined || value === "" || value === "NaN";

  const condition = (word) => {
    const parts = /^(.+?)(<=|>=|<|>|=)(.+)$/.exec(word);
    const column = parts && columns.find((one) => one.name === parts[1]);
    if (!column) {
      const wanted = word.toLowerCase();
      return (trial) => columns.some((one) => show(one.of(trial)).toLowerCase().includes(wanted));
    }
    const [, , sign, limit] = parts;
    const bound = Number(limit);
    return (trial) => {
      const value = column.of(trial);
      if (isEmpty(value)) return false;
      if (sign === "=") return show(value) === limit || (typeof value === "number" && value === bound);
      const at = number(value);
      return sign === "<" ? at < bound : sign === ">" ? at > bound : sign === "<=" ? at <= bound : at >= bound;
    };
  };

  const arrange = () => {
    const state = by("state").value;
    const wanted = by("words").value.trim().split(/\s+/).filter(Boolean).map(condition);
    const column = columns.find((one) => one.name === sorted.name) ?? columns[0];
    found = all.filter((trial) => (!state || trial.state === state) && wanted.every((test) => test(trial)));
    const keyed = found.map((trial) => [column.of(trial), trial]);
    const full = keyed.filter(([value]) => !isEmpty(value));
    full.sort((a, b) => (sorted.up ? 1 : -1) * (compare(a[0], b[0]) || a[1].trial - b[1].trial));
    found = [...full, ...keyed.filter(([value]) => isEmpty(value))].map(([, trial]) => trial);
    first = Math.max(0, Math.min(first, Math.floor((found.length - 1) / ROWS) * ROWS));
  };

  const heads = () => {
    const names = columns.map((one) => one.name).join("\n");
    if (head.dataset.names !== names) {
      head.dataset.names = names;
      head.replaceChildren(...columns.map((one) => {
        const th = make("th", null, one.numeric ? "n" : "");
        th.scope = "col";
        const button = make("button", one.name);
        button.type = "button";
        button.title = `Sort by ${one.name}`;
        button.addEventListener("click", () => {
          sorted = { name: one.name, up: sorted.name === one.name ? !sorted.up : true };
          first = 0;
          paint();
        });
        th.append(button);
        return th;
      }));
      body.replaceChildren();
    }
    [...head.cells].forEach((th, nth) => {
      const on = columns[nth].name === sorted.name;
      th.setAttribute("aria-sort", on ? (sorted.up ? "ascending" : "descending") : "none");
    });
  };

  const row = (nth) => {
    if (body.rows[nth]) return body.rows[nth];
    const tr = body.insertRow();
    columns.forEach((one, place) => {
      const td = tr.insertCell();
      if (one.numeric) td.className = "n";
      if (place === 0) {
        const button = make("button", "", "trial");
        button.type = "button";
        button.addEventListener("click", () => onPick(Number(tr.dataset.t)));
        td.append(button);
      }
    });
    return tr;
  };

  const paint = () => {
    if (!columns.length) return;
    heads();
    arrange();
    const shown = found.slice(first, first + ROWS);
    shown.forEach((trial, nth) => {
      const tr = row(nth);
      tr.dataset.t = trial.trial;
      columns.forEach((one, place) => {
        const text = one.told ? one.told(trial) : show(one.of(trial));
        const cell = place === 0 ? tr.cells[0].firstChild : tr.cells[place];
        if (cell.textContent !== text) { cell.textContent = text; cell.title = text.length > 30 ? text : ""; }
      });
      if (shown.length) tr.cells[0].firstChild.setAttribute("aria-label", `Trial ${trial.trial}: show all about it`);
    });
    while (body.rows.length > shown.length) body.deleteRow(-1);
    const upto = first + shown.length;
    by("shown").textContent = found.length ? `${(first + 1).toLocaleString("en")}–${upto.toLocaleString("en")} of ${found.length.toLocaleString("en")}` : "none";
    by("back").disabled = first === 0;
    by("on").disabled = upto >= found.length;
  };

  const turn = (by_) => { first = Math.max(0, first + by_ * ROWS); paint(); };
  by("back").addEventListener("click", () => turn(-1));
  by("on").addEventListener("click", () => turn(1));
  for (const kind of ["input", "change"]) {
    by("words").addEventListener(kind, () => { first = 0; paint(); });
    by("state").addEventListener(kind, () => { first = 0; paint(); });
  }

  return {
    update(trials, told, states) {
      all = trials;
      columns = told;
      const select = by("state");
      for (const state of states) {
        if (![...select.options].some((one) => one.value === state)) select.append(new Option(state, state));
      }
      paint();
    },
    picked(call) { onPick = call; },
  };
})();
