// Writes the report of a run: all data as JSON, and one self-contained page.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const FOLDER = dirname(fileURLToPath(import.meta.url));
const CHARTS = dirname(createRequire(join(dirname(FOLDER), 'package.json')).resolve('uplot/package.json'));

/**
 * The part of a run that the page shows. The JSON has all of it.
 * @typedef {object} Report
 * @property {string} scenario
 * @property {string} question
 * @property {string} driver
 * @property {string | null} target null = engines and services of the run itself
 * @property {number} scale
 * @property {ReturnType<typeof import('./machine.mjs').machineFacts>} machine
 * @property {import('./scenario.js').Plan} plan
 * @property {readonly string[]} failures
 * @property {readonly RequestFigures[]} requests
 * @property {readonly import('./verdict.mjs').CampaignVerdict[]} verdicts
 * @property {readonly import('./run.mjs').Check[]} checks
 * @property {readonly object[]} campaigns with the promises of people; not shown
 *
 * @typedef {{ name: string, sent: number, answered: number, p50_ms: number | null, p99_ms: number | null, max_ms:
 *   number | null, outcomes: Record<string, number> }} RequestFigures
 */

/**
 * @param {string} path without an ending
 * @param {Report} report
 * @returns {{ json: string, html: string }} the files
 */
export function writeReport(path, report) {
  const json = `${path}.json`;
  const html = `${path}.html`;
  writeFileSync(json, `${JSON.stringify(report)}\n`);
  writeFileSync(html, pageOf(report));
  return { json, html };
}

/** @param {Report} report @returns {string} */
export function pageOf(report) {
  const { campaigns: _, ...shown } = report;
  const parts = {
    title: text(`${report.scenario}: ${report.failures.length === 0 ? 'passed' : 'failed'}`),
    library: readFileSync(join(CHARTS, 'dist/uPlot.iife.min.js'), 'utf8'),
    libraryStyle: readFileSync(join(CHARTS, 'dist/uPlot.min.css'), 'utf8'),
    style: readFileSync(join(FOLDER, 'report/page.css'), 'utf8'),
    script: readFileSync(join(FOLDER, 'report/charts.js'), 'utf8'),
    // A name with "</script>" in it must not end the script.
    data: JSON.stringify(shown).replaceAll('<', '\\u003c'),
    body: bodyOf(report),
  };
  const page = readFileSync(join(FOLDER, 'report/page.html'), 'utf8');
  return page.replace(/%(\w+)%/g, (all, name) =>
    name in parts ? parts[/** @type {keyof typeof parts} */ (name)] : all,
  );
}

/** @param {Report} report */
function bodyOf(report) {
  const passed = report.failures.length === 0;
  const { machine } = report;
  return `
<header>
  <p class="verdict ${passed ? 'passed' : 'failed'}">${passed ? 'Passed' : 'Failed'}</p>
  <h1>${text(report.scenario)}</h1>
  <p class="question">${text(report.question)}</p>
  <p class="facts">${text(
    Object.entries(report.plan)
      .map(([what, count]) => `${number(count)} ${what}`)
      .join(', '),
  )}; scale ${text(report.scale)};
  driven by ${text(report.driver)}; ${text(report.target ?? 'engines of its own')}<br>
  ${text(machine.date)}; ${text(machine.machine)}, load ${text(machine.load)} before; Node ${text(machine.node)}; revision ${text(machine.revision)}</p>
</header>
${passed ? '' : `<section class="failures"><h2>What failed</h2><ul>${report.failures.map((failure) => `<li>${text(failure)}</li>`).join('')}</ul></section>`}
<section><h2>Answers a second</h2><div id="answers"></div></section>
<section><h2>Time to the answer, ms</h2><div id="latency"></div></section>
<section><h2>Stock and line</h2><div id="stock"></div></section>
<section><h2>Requests</h2>
${table(['request', 'sent', 'answered', 'p50 ms', 'p99 ms', 'longest ms', 'answers'], report.requests.map(requestRow))}
</section>
<section><h2>The ledger</h2>
${table(
  [
    'campaign',
    'confirmed',
    'persisted',
    'lost',
    'duplicated',
    'over the cap',
    'drift',
    'promises',
    'without their row',
  ],
  report.verdicts.map(verdictRow),
)}
</section>
<section><h2>What else must hold</h2>
${table(
  ['', 'holds', 'found'],
  report.checks.map(({ what, holds, found }) => [
    what,
    holds ? 'yes' : 'NO',
    typeof found === 'object' ? JSON.stringify(found) : found,
  ]),
)}
</section>`;
}

/** @param {RequestFigures} request */
function requestRow({ name, sent, answered, p50_ms, p99_ms, max_ms, outcomes }) {
  const words = Object.entries(outcomes)
    .sort(([, a], [, b]) => b - a)
    .map(([outcome, count]) => `${outcome}: ${number(count)}`);
  return [name, sent, answered, p50_ms ?? '–', p99_ms ?? '–', max_ms ?? '–', words.join(', ')];
}

/** @param {import('./verdict.mjs').CampaignVerdict} verdict */
function verdictRow({ product, ledger, told }) {
  const { confirmed, persisted, lost, duplicated, over_cap, drift } = ledger;
  return [
    product,
    confirmed,
    persisted,
    lost,
    duplicated,
    over_cap,
    drift,
    told.promises,
    told.missing + told.another + told.voided,
  ];
}

/** @param {readonly string[]} heads @param {readonly (readonly unknown[])[]} rows */
function table(heads, rows) {
  const cells = (/** @type {readonly unknown[]} */ row) =>
    row
      .map((cell) => (typeof cell === 'number' ? `<td class="number">${number(cell)}</td>` : `<td>${text(cell)}</td>`))
      .join('');
  return `<div class="wide"><table><thead><tr>${heads.map((head) => `<th scope="col">${text(head)}</th>`).join('')}</tr></thead>
<tbody>${rows.map((row) => `<tr>${cells(row)}</tr>`).join('')}</tbody></table></div>`;
}

/** @param {unknown} value */
const number = (value) => (typeof value === 'number' ? value.toLocaleString('en') : text(value));

/** @param {unknown} value */
function text(value) {
  return String(value).replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
