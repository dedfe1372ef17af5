// Draws a network and lets the reader move through time.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WAITING = ["", "#fbd9b5", "#f9c48f", "#f6ad69", "#f29447", "#ea7a2f", "#dc5f26", "#c74624", "#a93023", "#861d22"];
  const FILLED = ["#fff", "#eef4fb", "#dfebf7", "#cde0f2", "#b8d3ec", "#a0c4e5", "#86b3dc", "#6aa0d1", "#4e8bc4", "#3474b3"];
  const make = (parent, name, attributes) => {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    return parent.appendChild(element);
  };
  const html = (parent, name, text) => {
    const element = parent.appendChild(document.createElement(name));
    if (text) element.textContent = text;
    return element;
  };

  const begin = (place, data) => {
    const width = 1100, left = 76, right = 12, gap = 118, top = 26;
    const layers = data.layers.length;
    const height = top + (layers - 1) * gap + 44;
    const X = (node) => left + (width - left - right) * node[0] / 1000;
    const Y = (node) => top + (layers - 1 - node[1]) * gap;
    const svg = make(place, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    data.layers.forEach((name, layer) => {
      make(svg, "text", { x: 0, y: Y([0, layer]) + 4, class: "layer" }).textContent = name;
    });

    const halves = [];
    for (let link = 0; link * 2 < data.links.length; link++) {
      const [a, b] = [data.nodes[data.links[2 * link]], data.nodes[data.links[2 * link + 1]]];
      for (const [from, to] of [[a, b], [b, a]]) {
        // Both stop short of the middle, where links cross: there two halves would look like one link.
        const toward = (P) => P(from) + 0.45 * (P(to) - P(from));
        const half = make(svg, "line", { x1: X(from), y1: Y(from), x2: toward(X), y2: toward(Y), class: "link" });
        make(half, "title", {}).textContent = `${from[3]} → ${to[3]}`;
        halves.push(half);
      }
    }
    const labels = [];
    const bodies = data.nodes.map((node, index) => {
      const box = node[2] > 0;
      const body = box
        ? make(svg, "rect", { x: X(node) - node[2] / 2, y: Y(node) - 11, width: node[2], height: 22, rx: 4, class: "node" })
        : make(svg, "circle", { cx: X(node), cy: Y(node), r: 6, class: "node" });
      make(body, "title", {}).textContent = node[3];
      if (node[4]) {
        const y = Y(node) + (box ? 4 : 21);
        const text = make(svg, "text", { x: X(node), y, class: "name" });
        text.textContent = node[4];
        if (box) labels[index] = text;
      }
      return body;
    });
    // Coloured halves lie above the others and below the nodes.
    const shade = make(svg, "g", {});
    svg.insertBefore(shade, bodies[0] || null);

    const bar = html(place, "div");
    bar.className = "controls";
    // Of one moment there is nothing to play.
    bar.hidden = data.frames.length < 2;
    const play = html(bar, "button", "▶ Play");
    const slider = html(bar, "input");
    Object.assign(slider, { type: "range", min: 0, max: Math.max(0, data.frames.length - 1), step: 1 });
    slider.setAttribute("aria-label", "time");
    const time = html(bar, "output");
    const legend = html(place, "p");
    legend.className = "caption";
    // What needs no scale is said once, and nothing is said where nothing is marked.
    const isPlain = data.waiting === data.filled;
    const isMarked = data.frames.some((frame) => frame[1].length + frame[2].length > 0);
    if (isPlain) legend.textContent = isMarked ? `Coloured: ${data.waiting}` : "";
    else legend.innerHTML = "<span class='ramp wait'></span> <span></span> &ensp; <span class='ramp fill'></span> <span></span>";
    if (!isPlain) {
      legend.children[1].textContent = data.waiting;
      legend.children[3].textContent = data.filled;
    }

    let lit = [], full = [];
    const show = (index) => {
      const frame = data.frames[index];
      if (!frame) return;
      lit.forEach((half) => { half.style.stroke = half.style.strokeWidth = ""; });
      full.forEach((node) => {
        bodies[node].style.fill = "";
        if (labels[node]) labels[node].style.fill = "";
      });
      lit = []; full = [];
      for (let i = 0; i < frame[1].length; i += 2) {
        const half = halves[frame[1][i]];
        half.style.stroke = WAITING[frame[1][i + 1]];
        half.style.strokeWidth = 3.2;
        shade.appendChild(half);
        lit.push(half);
      }
      for (let i = 0; i < frame[2].length; i += 2) {
        const [node, level] = [frame[2][i], frame[2][i + 1]];
        bodies[node].style.fill = FILLED[level];
        if (labels[node] && level > 6) labels[node].style.fill = "#fff";
        full.push(node);
      }
      slider.value = index;
      time.textContent = `${frame[0]}, ${lit.length} of ${halves.length} ends wait`;
    };

    let timer = null;
    const stop = () => { clearInterval(timer); timer = null; play.textContent = "▶ Play"; };
    play.onclick = () => {
      if (timer) return stop();
      if (Number(slider.value) >= data.frames.length - 1) show(0);
      play.textContent = "❚❚ Pause";
      timer = setInterval(() => {
        const next = Number(slider.value) + 1;
        next < data.frames.length ? show(next) : stop();
      }, 90);
    };
    slider.oninput = () => { stop(); show(Number(slider.value)); };
    show(data.first);
  };

  for (const data of document.querySelectorAll('script[type="application/json"][data-for^="replay-"]')) {
    begin(document.getElementById(data.dataset.for), JSON.parse(data.textContent));
  }
})();
