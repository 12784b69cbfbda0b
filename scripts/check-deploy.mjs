// `npm run check:deploy`: lets the programs that read the files of deploy/ and the compose files validate them. A
// program that is not on the PATH is skipped with a line that says so; it is no failure.
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const CHART = join(ROOT, 'deploy/helm');
const COMPOSE = join(ROOT, 'deploy/compose');
const VALUES = ['smallest.yaml', 'everything.yaml'].map((name) => join(CHART, 'ci', name));
const COMPOSITIONS = [
  ['docker-compose.yml'],
  ['docker-compose.cluster.yml'],
  ['docker-compose.cluster.yml', 'docker-compose.sentinel.yml'],
  ['docker-compose.cluster.yml', 'docker-compose.roles.yml'],
];
/** Kinds of operators, for which no schema comes with Kubernetes. */
const UNKNOWN_KINDS = /Couldn't find schema for kind (?:ServiceMonitor|PrometheusRule) /;

/** @typedef {{ name: string, needs: string[], run: (work: string) => string | undefined }} Check */

/** @type {Check[]} */
const CHECKS = [
  {
    name: 'the chart (helm lint)',
    needs: ['helm'],
    run: () => firstProblem(VALUES, (values) => failure('helm', ['lint', '--strict', '--quiet', CHART, '-f', values])),
  },
  {
    name: 'what the chart renders (kubernetes-validate)',
    needs: ['helm', 'kubernetes-validate'],
    run: (work) => firstProblem(VALUES, (values) => validateRendered(values, join(work, 'rendered.yaml'))),
  },
  {
    name: 'misspelt values are rejected',
    needs: ['helm'],
    run: () =>
      firstProblem(['config.LOG_LEVL=info', 'api.replica=2', 'monitoring.serviceMonitr.enabled=true'], (wrong) =>
        rejects(wrong) ? undefined : `${wrong} was accepted`,
      ),
  },
  {
    name: 'rules of Prometheus (promtool)',
    needs: ['promtool'],
    run: (work) =>
      failure('promtool', ['check', 'rules', join(ROOT, 'deploy/prometheus-alerts.yml')]) ??
      failure('promtool', ['test', 'rules', join(ROOT, 'deploy/prometheus-alerts.test.yml')]) ??
      failure('promtool', ['check', 'config', prometheusConfig(work)]),
  },
  { name: 'the proxy (haproxy -c)', needs: ['haproxy', 'openssl'], run: checkProxy },
  {
    name: 'shell scripts (sh -n)',
    needs: ['sh'],
    run: () =>
      firstProblem(
        readdirSync(COMPOSE).filter((name) => name.endsWith('.sh')),
        (name) => failure('sh', ['-n', join(COMPOSE, name)]),
      ),
  },
  composition('docker', ['compose'], ['docker', 'compose', 'version']),
];

/**
 * Compose reads its files. A missing .env is written as an empty one, in a copy.
 * @param {string} program
 * @param {string[]} before
 * @param {string[]} probe the command that shows whether it is there
 * @returns {Check}
 */
function composition(program, before, probe) {
  const standalone = !answers(probe) && isThere('docker-compose');
  const [name, args] = standalone ? ['docker-compose', []] : [program, before];
  return {
    name: `compose files (${[name, ...args].join(' ')} config)`,
    needs: standalone || answers(probe) ? [] : ['docker compose'],
    run: (work) => {
      const all = [...new Set(COMPOSITIONS.flat())];
      for (const file of all) copyFileSync(join(ROOT, file), join(work, file));
      writeFileSync(join(work, '.env'), 'POSTGRES_PASSWORD=password\nGRAFANA_PASSWORD=password\n');
      return firstProblem(COMPOSITIONS, (files) =>
        failure(name, [...args, ...files.flatMap((file) => ['-f', join(work, file)]), 'config', '--quiet']),
      );
    },
  };
}

let failed = 0;
for (const { name, needs, run } of CHECKS) {
  const missing = needs.filter((program) => !isThere(program));
  if (missing.length > 0) {
    process.stdout.write(`skipped ${name}: ${missing.join(' and ')} not found\n`);
    continue;
  }
  const work = mkdtempSync(join(tmpdir(), 'doorbuster-deploy-'));
  const problem = run(work);
  rmSync(work, { recursive: true, force: true });
  process.stdout.write(problem === undefined ? `ok      ${name}\n` : `FAILED  ${name}\n${problem}\n`);
  if (problem !== undefined) failed += 1;
}
process.exitCode = failed > 0 ? 1 : 0;

/** @param {string} program */
function isThere(program) {
  return spawnSync('sh', ['-c', `command -v "${program}"`], { stdio: 'ignore' }).status === 0;
}

/** @param {string[]} command */
function answers([program = '', ...args]) {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}

/**
 * @param {string} program
 * @param {string[]} args
 * @returns {string | undefined} what it printed when it failed
 */
function failure(program, args) {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  return status === 0 ? undefined : `${stdout ?? ''}${stderr ?? ''}`;
}

/**
 * @template Item
 * @param {readonly Item[]} items
 * @param {(item: Item) => string | undefined} check
 * @returns {string | undefined}
 */
function firstProblem(items, check) {
  for (const item of items) {
    const problem = check(item);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/**
 * @param {string} values
 * @param {string} rendered where to write the manifests
 */
function validateRendered(values, rendered) {
  const args = ['template', 'sale', CHART, '-f', values];
  const { status, stdout, stderr } = spawnSync('helm', args, { encoding: 'utf8' });
  if (status !== 0) return stderr;
  writeFileSync(rendered, stdout);
  const result = spawnSync('kubernetes-validate', ['--strict', rendered], { encoding: 'utf8' });
  const lines = `${result.stdout}${result.stderr}`.split('\n');
  const wrong = lines.filter((line) => /^(?:ERROR|WARN)/.test(line) && !UNKNOWN_KINDS.test(line));
  if (result.status === 0 && wrong.length === 0) return undefined;
  return wrong.join('\n') || lines.join('\n');
}

/** @param {string} wrong a value that the chart does not have */
function rejects(wrong) {
  const args = ['template', 'sale', CHART, '-f', String(VALUES[0]), '--set', wrong];
  return spawnSync('helm', args, { stdio: 'ignore' }).status !== 0;
}

/**
 * @param {string} work
 * @returns {string} the configuration with the rules where they are here
 */
function prometheusConfig(work) {
  const file = join(work, 'prometheus.yml');
  const rules = join(ROOT, 'deploy/prometheus-alerts.yml');
  const text = readFileSync(join(COMPOSE, 'prometheus.yml'), 'utf8');
  writeFileSync(file, text.replace('/etc/prometheus/doorbuster-alerts.yml', rules));
  return file;
}

/** @param {string} work */
function checkProxy(work) {
  const certificate = join(work, 'doorbuster.pem');
  const env = { ...process.env, CERTIFICATE: certificate };
  execFileSync('sh', [join(COMPOSE, 'make-certificate.sh')], { env, stdio: 'ignore' });
  const file = join(work, 'haproxy.cfg');
  const text = readFileSync(join(COMPOSE, 'haproxy.cfg'), 'utf8');
  const page = join(COMPOSE, '../static/busy.html');
  const placed = text.replace('/certificates/doorbuster.pem', certificate);
  writeFileSync(file, placed.replace('/usr/local/etc/haproxy/busy.html', page));
  return failure('haproxy', ['-c', '-q', '-f', file]);
}
