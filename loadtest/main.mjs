// `npm run loadtest -- <scenario>`: load on a running server, then the verdict. See docs/loadtest.md.
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requireNode } from '../scripts/node-version.mjs';
import { Problem } from '../scripts/problem.mjs';
import { createTerminal } from '../scripts/terminal.mjs';

const FOLDER = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(FOLDER);
const STOP_LIMIT_MS = 5_000;

process.exit(await main(process.argv.slice(2)));

/**
 * @param {string[]} args
 * @returns {Promise<number>} the exit code
 */
async function main(args) {
  const terminal = createTerminal();
  try {
    requireNode();
    for (const needed of ['node_modules/ws', 'dist/commands/ledger.js']) {
      if (existsSync(join(ROOT, needed))) continue;
      throw new Problem('Packages or build are missing.', { remedy: 'Start the server first: npm start', exitCode: 2 });
    }
    // Imported here, because these modules need a newer Node than the message about an old one.
    const { readOptions, USAGE } = await import('./options.mjs');
    const { onStopRequest } = await import('../scripts/stop-requests.mjs');
    const { refuseToLaunch, stopStragglers } = await import('../scripts/processes.mjs');
    onStopRequest({
      stop: () => {
        refuseToLaunch();
        stopStragglers(STOP_LIMIT_MS).finally(() => process.exit(130));
      },
      hurry: () => process.exit(130),
    });
    const wish = readOptions(args, join(FOLDER, 'reports'));
    switch (wish.what) {
      case 'help':
        terminal.print(USAGE);
        return 0;
      case 'list':
        return await list(terminal);
      case 'again':
        return await verifyAgain(terminal, wish);
      default:
        return await runOne(terminal, wish);
    }
  } catch (error) {
    terminal.explain(error);
    return error instanceof Problem ? error.exitCode : 2;
  }
}

/** @param {import('../scripts/terminal.mjs').Terminal} terminal */
async function list({ print }) {
  const { SCENARIOS } = await import('./scenarios.mjs');
  const width = Math.max(...Object.keys(SCENARIOS).map((name) => name.length));
  for (const [name, { about, load }] of Object.entries(SCENARIOS)) {
    print(`${name.padEnd(width)}  ${about} (${(await load()).driver})`);
  }
  return 0;
}

/**
 * @param {import('../scripts/terminal.mjs').Terminal} terminal
 * @param {Extract<import('./options.mjs').Wish, { what: 'run' }>} wish
 */
async function runOne(terminal, wish) {
  const { SCENARIOS } = await import('./scenarios.mjs');
  const { findTarget } = await import('./target.mjs');
  const scenario = await /** @type {(typeof SCENARIOS)[string]} */ (SCENARIOS[wish.scenario]).load();
  if (scenario.stage) return runOnStage(terminal, wish, scenario, scenario.stage);
  const target = await findTarget(wish.target, ROOT, process.env);
  if (scenario.driver === 'Artillery') {
    const { bringArtillery } = await import('./artillery.mjs');
    await bringArtillery(terminal);
  }
  return runAgainst(terminal, wish, scenario, target, null);
}

/**
 * @param {import('../scripts/terminal.mjs').Terminal} terminal
 * @param {Extract<import('./options.mjs').Wish, { what: 'run' }>} wish
 * @param {import('./scenario.js').Scenario} scenario
 * @param {import('./scenario.js').StagePlan} plan
 */
async function runOnStage(terminal, wish, scenario, plan) {
  if (wish.targetGiven) {
    throw new Problem(`${wish.scenario} starts engines and services of its own.`, {
      remedy: 'Leave out --target.',
      exitCode: 2,
    });
  }
  const { startStage } = await import('./stage.mjs');
  const stage = await startStage(plan, ROOT, terminal.print);
  try {
    return await runAgainst(terminal, wish, scenario, stage.target, stage);
  } finally {
    await stage.stop();
  }
}

/**
 * @param {import('../scripts/terminal.mjs').Terminal} terminal
 * @param {Extract<import('./options.mjs').Wish, { what: 'run' }>} wish
 * @param {import('./scenario.js').Scenario} scenario
 * @param {import('./target.mjs').Target} target
 * @param {import('./stage.mjs').Stage | null} stage
 */
async function runAgainst(terminal, { scenario: name, scale, reports }, scenario, target, stage) {
  const { LoadRun, runScenario } = await import('./run.mjs');
  const { machineFacts } = await import('./machine.mjs');
  const { writeReport } = await import('./report.mjs');
  const run = new LoadRun(target, terminal.print, { stage, limitMs: scenario.limitMs });
  const machine = machineFacts(ROOT);
  const where = stage === null ? `against ${target.url}` : 'on engines of its own';
  terminal.print(`${name} ${where}, driven by ${scenario.driver}: ${describe(scenario.plan(scale))}`);
  const result = await runScenario(scenario, scale, run);
  const report = {
    scenario: name,
    question: scenario.question,
    driver: scenario.driver,
    target: stage === null ? target.url : null,
    scale,
    machine,
    ...result,
  };
  mkdirSync(reports, { recursive: true });
  const written = writeReport(join(reports, `${name}-${run.id}`), report);
  tellVerdict(terminal, result.verdicts, result.failures);
  terminal.print(`report: ${written.html}`);
  return result.failures.length === 0 ? 0 : 1;
}

/**
 * @param {import('../scripts/terminal.mjs').Terminal} terminal
 * @param {Extract<import('./options.mjs').Wish, { what: 'again' }>} wish
 */
async function verifyAgain(terminal, { report: path, target: asked }) {
  const { findTarget } = await import('./target.mjs');
  const { takeVerdicts } = await import('./verdict.mjs');
  const { verdictFailures } = await import('./assertions.mjs');
  const report = readReport(path);
  if (report.target === null) {
    throw new Problem('The engines of that run ended with it.', {
      remedy: `Run it again: npm run loadtest -- ${report.scenario}`,
      exitCode: 2,
    });
  }
  const target = await findTarget(asked ?? new URL(report.target), ROOT, process.env);
  const verdicts = await takeVerdicts(target, report.campaigns);
  const failures = verdictFailures(verdicts);
  tellVerdict(terminal, verdicts, failures);
  return failures.length === 0 ? 0 : 1;
}

/** @param {string} path */
function readReport(path) {
  try {
    const report = JSON.parse(readFileSync(path, 'utf8'));
    if (Array.isArray(report.campaigns)) return report;
  } catch {
    // Reported below.
  }
  throw new Problem(`${path} is no report of a load test.`, {
    remedy: 'Name a .json file of loadtest/reports.',
    exitCode: 2,
  });
}

/**
 * @param {import('../scripts/terminal.mjs').Terminal} terminal
 * @param {readonly import('./verdict.mjs').CampaignVerdict[]} verdicts
 * @param {readonly string[]} failures
 */
function tellVerdict({ print }, verdicts, failures) {
  for (const { product, ledger, told } of verdicts) {
    const { confirmed, persisted, lost, duplicated, over_cap, drift } = ledger;
    print(
      `${product}: confirmed ${confirmed}, persisted ${persisted}, lost ${lost}, duplicated ${duplicated}, over_cap ${over_cap}, drift ${drift}; ` +
        `${told.promises} promises held against their rows`,
    );
  }
  for (const failure of failures) print(`FAILED  ${failure}`);
  print(failures.length === 0 ? 'PASSED' : `FAILED  ${failures.length} in all`);
}

/** @param {Record<string, number>} plan */
function describe(plan) {
  return Object.entries(plan)
    .map(([what, count]) => `${count.toLocaleString('en')} ${what}`)
    .join(', ');
}
