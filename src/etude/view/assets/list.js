(() => {
  "use strict";
  const EVERY_MS = 2000;
  const body = document.getElementById("rows");
  const line = document.getElementById("line");

  const cell = (text, numeric) => {
    const td = document.createElement("td");
    td.textContent = text;
    if (numeric) td.className = "n";
    return td;
  };
  const best = (row) => row.front ? `front of ${row.front.length}` : typeof row.best === "number" ? String(+row.best.toPrecision(6)) : row.best ?? "";
  const drawn = (row) => {
    const tr = document.createElement("tr");
    const link = document.createElement("a");
    link.href = `/study/${encodeURIComponent(row.study)}`;
    link.textContent = row.study;
    const name = document.createElement("td");
    name.append(link);
    const metrics = Object.entries(row.metrics).map(([metric, mode]) => `${metric} (${mode})`).join(", ");
    const standing = row.simulated ? `${row.standing}, simulated` : row.standing;
    tr.append(name, cell(standing), cell(row.trials ?? "", true), cell(metrics), cell(best(row), true));
    return tr;
  };
  let before = "";
  const look = async () => {
    try {
      const answer = await fetch("/studies");
      const text = await answer.text();
      if (!answer.ok) { line.textContent = JSON.parse(text).error; return; }
      line.textContent = "";
      if (text !== before) {
        const rows = JSON.parse(text);
        const focused = document.activeElement?.getAttribute?.("href");
        body.replaceChildren(...rows.map(drawn));
        if (focused) body.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
        if (!rows.length) line.textContent = "There are no studies here yet.";
        before = text;
      }
    } catch { line.textContent = "The server does not answer; trying again."; }
    setTimeout(look, EVERY_MS);
  };
  look();
})();
