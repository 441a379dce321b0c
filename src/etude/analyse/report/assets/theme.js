(() => {
  "use strict";
  const root = document.documentElement;
  const kept = {
    get() { try { return localStorage.getItem("etude-theme"); } catch { return null; } },
    set(theme) { try { localStorage.setItem("etude-theme", theme); } catch { /* private windows keep nothing */ } },
  };
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const button = document.getElementById("theme");
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  if (["light", "dark"].includes(kept.get())) root.dataset.theme = kept.get();
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept.set(root.dataset.theme);
    label();
  });
})();
