// Draws the charts of a report. The page contains uPlot and the report.
(() => {
  const element = (/** @type {string} */ id) => {
    const found = document.getElementById(id);
    if (found === null) throw new Error(`the page has no ${id}`);
    return found;
  };
  /**
   * @typedef {Record<'second' | 'sent', number> & { p50_ms: number | null, p99_ms: number | null, statuses:
   *   Record<string, number> }} Second
   */
  /** @typedef {Record<'second' | 'free' | 'held' | 'redeemed' | 'waiting', number>} Moment */
  /** @type {{ seconds: Second[], stock: Moment[] }} */
  const report = JSON.parse(element('report').textContent ?? '');
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const ink = dark ? '#a2acba' : '#5a6473';
  const grid = { stroke: dark ? '#2b323c' : '#e8ebf0', width: 1 };
  const COLOURS = dark
    ? ['#7cb7ff', '#ffb454', '#5fd39a', '#ff8f8a', '#c9a2ff', '#e6e9ef', '#5ad1e0', '#f09ad0']
    : ['#1f6fd1', '#b45f06', '#0b6b3a', '#a3161a', '#6b3fa0', '#1d2430', '#0e7c8c', '#b0307f'];

  /** @param {string} id @param {number[]} xs @param {{ label: string, values: (number | null)[] }[]} lines */
  const chart = (id, xs, lines) => {
    const place = element(id);
    if (xs.length === 0) {
      place.textContent = 'Nothing was measured.';
      return;
    }
    // A single value makes no line, so its point is shown.
    const points = { show: xs.length < 40, size: 6 };
    /** @type {uPlot.Options} */
    const options = {
      width: Math.max(320, place.clientWidth),
      height: 220,
      scales: {
        x: { time: false, range: (_, low, high) => [Math.min(low, 0), Math.max(high, 1)] },
        y: { range: (_, __, high) => [0, Math.max(1, high * 1.1)] },
      },
      axes: [
        { stroke: ink, grid, ticks: grid, values: (_, ticks) => ticks.map((tick) => `${tick} s`) },
        { stroke: ink, grid, ticks: grid, size: 72 },
      ],
      series: [
        { label: 'second' },
        ...lines.map(({ label }, i) => ({ label, stroke: COLOURS[i % COLOURS.length] ?? ink, width: 2, points })),
      ],
    };
    const drawn = new uPlot(options, [xs, ...lines.map(({ values }) => values)], place);
    addEventListener('resize', () => drawn.setSize({ width: Math.max(320, place.clientWidth), height: 220 }));
  };

  const { seconds, stock } = report;
  const at = seconds.map(({ second }) => second + 1);
  const statuses = [...new Set(seconds.flatMap((second) => Object.keys(second.statuses)))].sort();
  chart('answers', at, [
    { label: 'sent', values: seconds.map(({ sent }) => sent) },
    ...statuses.map((status) => ({ label: status, values: seconds.map((second) => second.statuses[status] ?? 0) })),
  ]);
  chart('latency', at, [
    { label: 'p50', values: seconds.map(({ p50_ms }) => p50_ms) },
    { label: 'p99', values: seconds.map(({ p99_ms }) => p99_ms) },
  ]);
  chart(
    'stock',
    stock.map(({ second }) => second),
    /** @type {const} */ (['free', 'held', 'redeemed', 'waiting']).map((name) => ({
      label: name,
      values: stock.map((moment) => moment[name]),
    })),
  );
})();
