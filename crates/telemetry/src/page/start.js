// Draws every figure of the page from the specification that stands behind it.
(() => {
  const config = {
    font: 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
    view: { stroke: null },
    axis: {
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, titleColor: "#3e4c59",
      labelColor: "#52606d", gridColor: "#e9edf1", domainColor: "#9aa5b1", tickColor: "#9aa5b1",
    },
    legend: { labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, labelLimit: 260 },
    range: {
      category: ["#2f6db5", "#d9822b", "#2e9c6a", "#b8405e", "#7757b3", "#8a6d3b", "#3aa3b8", "#6b7785"],
    },
  };
  const options = { config, renderer: "svg", actions: { export: true, source: true, compiled: false, editor: false } };
  for (const data of document.querySelectorAll('script[type="application/json"][data-for^="figure-"]')) {
    const place = document.getElementById(data.dataset.for);
    vegaEmbed(place, JSON.parse(data.textContent), options).catch((error) => {
      place.textContent = "This figure could not be drawn: " + error;
    });
  }
})();
