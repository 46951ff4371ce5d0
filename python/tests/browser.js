// What tests ask of a page; see browser.py.
globalThis.checks = (() => {
  const visible = (element) => element.checkVisibility({ visibilityProperty: true });
  function texts() {
    const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = walk.nextNode());) {
      if (!node.data.trim() || node.parentElement.closest("script, style")) continue;
      if (visible(node.parentElement)) found.push(node);
    }
    return found;
  }
  const start = (node) => node.data.trim().slice(0, 40);

  // WCAG's contrast of a text's computed colour with what is painted behind it.
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const part = (v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
  const over = ([r, g, b, a = 1], [R, G, B]) =>
    [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
  function behind(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      layers.push(rgb(getComputedStyle(at).backgroundColor));
      if ((layers.at(-1)[3] ?? 1) === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  }
  function contrast(color, ground) {
    const [a, b] = [light(over(rgb(color), ground)), light(ground)];
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  }

  function renderer(name) {
    for (const root of Bokeh.documents.flatMap((each) => each.roots())) {
      const found = [...root.references()].find((model) => model.name === name);
      if (found) return [root, found];
    }
    throw new Error("no renderer " + name);
  }

  return {
    idle: () => Bokeh.documents.every((each) => each.is_idle),
    low(least) {
      return texts().flatMap((node) => {
        const { color } = getComputedStyle(node.parentElement);
        const found = contrast(color, behind(node.parentElement));
        return found < least ? [`${found.toFixed(2)}: ${start(node)}`] : [];
      });
    },
    // Of charts: their axes' and ticks' colours, on the card that they are painted on.
    low_in_charts(least) {
      const found = [];
      for (const root of Bokeh.documents.flatMap((each) => each.roots())) {
        const ground = behind(Bokeh.index.find_one(root).el.parentElement);
        for (const model of root.references())
          for (const name of ["axis_label_text_color", "major_label_text_color", "title_text_color"])
            if (name in model.attributes && typeof model[name] === "string") {
              const probe = document.body.appendChild(document.createElement("i"));
              probe.style.color = model[name];
              const value = contrast(getComputedStyle(probe).color, ground);
              probe.remove();
              if (value < least) found.push(`${value.toFixed(2)}: ${model.type} ${name}`);
            }
      }
      return found;
    },
    cut() {
      return texts().filter((node) => {
        if (node.parentElement.closest(".wide, .hidden, pre")) return false;
        const range = document.createRange();
        range.selectNodeContents(node);
        return [...range.getClientRects()].some((box) => box.left < -1 || box.right > innerWidth + 1);
      }).map(start);
    },
    stops() {
      const found = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
        .filter((each) => visible(each) && !each.disabled);
      found.forEach((each, i) => each.dataset.stop = i);
      return found.length;
    },
    unnamed() {
      return [...document.querySelectorAll("[data-stop]")].filter((each) =>
        !(each.textContent.trim() || each.getAttribute("aria-label")
          || [...(each.labels ?? [])].some((label) => label.textContent.trim())))
        .map((each) => each.outerHTML.slice(0, 80));
    },
    focus() {
      const at = document.activeElement, inner = at.shadowRoot?.activeElement;
      const strange = inner ?? ("stop" in at.dataset || at === document.body ? null : at);
      return [at.dataset.stop ?? null, getComputedStyle(at).outlineStyle, strange?.outerHTML.slice(0, 80) ?? ""];
    },
    data(name, columns) {
      const { data } = renderer(name)[1].data_source;
      return Object.fromEntries(columns.map((column) => [column, [...data[column]]]));
    },
    place(name, row) {
      const [root, { glyph, data_source: { data } }] = renderer(name);
      const { el, frame } = Bokeh.index.find_one(root);
      const at = (field) => data[glyph[field].field][row];
      const y = "top" in glyph.attributes ? (at("top") + at("bottom")) / 2 : at("y");
      const area = el.getBoundingClientRect();
      return [area.x + frame.x_scale.compute(at("x")), area.y + frame.y_scale.compute(y)];
    },
    tooltips() {
      const found = [];
      const look = (root) => {
        for (const each of root.querySelectorAll("*")) {
          if (each.matches(".bk-Tooltip") && visible(each))
            for (const text of each.shadowRoot.querySelectorAll("bdi")) found.push(text.textContent);
          if (each.shadowRoot) look(each.shadowRoot);
        }
      };
      look(document);
      return found;
    },
  };
})();
