(() => {
  "use strict";
  const number = (text) => text === "" ? NaN : text === "∞" ? Infinity : Number(text.split(" ")[0].replace("\u2212", "-"));
  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    if (!Number.isNaN(x) || !Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return a.localeCompare(b);
  };
  for (const table of document.querySelectorAll("table[data-sort]")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, nth) => {
      head.setAttribute("aria-sort", "none");
      const button = document.createElement("button");  // for keyboards; where no script runs there is nothing to press
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows].map((row) => [row.cells[nth].textContent, row]);
        const empty = rows.filter(([text]) => text === "");  // they are last, whichever way
        const full = rows.filter(([text]) => text !== "").sort((a, b) => (up ? 1 : -1) * compare(a[0], b[0]));
        body.append(...[...full, ...empty].map(([, row]) => row));
      });
    });
  }

  const trials = document.getElementById("trials");
  const names = trials ? [...trials.tHead.rows[0].cells].map((cell) => cell.textContent) : [];
  const rows = new Map(trials ? [...trials.tBodies[0].rows].map((row) => [row.dataset.t, row]) : []);
  const filters = document.querySelector(".filters");
  if (filters) {
    filters.hidden = false;
    const words = filters.querySelector("input");
    const state = filters.querySelector("select");
    const told = filters.querySelector("output");
    const condition = (word) => {
      const parts = /^(.+?)(<=|>=|<|>|=)(.+)$/.exec(word);
      const nth = parts ? names.indexOf(parts[1]) : -1;
      if (nth < 0) return (row) => row.textContent.toLowerCase().includes(word.toLowerCase());
      const [, , sign, limit] = parts;
      return (row) => {
        const text = row.cells[nth].textContent;
        if (sign === "=") return text === limit || (text !== "" && number(text) === number(limit));
        const [value, bound] = [number(text), number(limit)];
        return sign === "<" ? value < bound : sign === ">" ? value > bound : sign === "<=" ? value <= bound : value >= bound;
      };
    };
    const apply = () => {
      const wanted = words.value.trim().split(/\s+/).filter(Boolean).map(condition);
      let n = 0;
      for (const row of rows.values()) {
        const on = (!state.value || row.dataset.s === state.value) && wanted.every((test) => test(row));
        row.classList.toggle("off", !on);
        n += on;
      }
      told.textContent = `${n} of ${rows.size}`;
    };
    words.addEventListener("input", apply);
    state.addEventListener("change", apply);
    apply();
  }

  const tip = document.getElementById("tip");
  let lit = [];
  const dim = () => { for (const one of lit) one.classList.remove("hit"); lit = []; tip.hidden = true; };
  document.addEventListener("pointerover", (event) => {
    dim();
    const mark = event.target.closest?.("svg [data-t], #trials tbody tr");
    if (!mark) return;
    const trial = mark.dataset.t;
    lit = [...document.querySelectorAll(`[data-t="${CSS.escape(trial)}"]`)];
    for (const one of lit) one.classList.add("hit");
    if (mark.tagName === "TR") return;
    const row = rows.get(trial);
    const cells = row ? [...row.cells].map((cell, nth) => [names[nth], cell.textContent]).filter(([, text]) => text !== "") : [["trial", trial]];
    tip.textContent = cells.slice(0, 12).map(([name, text]) => `${name}: ${text.slice(0, 60)}`).join("\n");
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(8, Math.min(event.clientY + 14, innerHeight - box.height - 8))}px`;
  });
  document.addEventListener("click", (event) => {
    const row = rows.get(event.target.closest?.("svg [data-t]")?.dataset.t);
    if (row) row.scrollIntoView({ block: "center" });
  });
})();
