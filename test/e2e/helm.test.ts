import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Ajv } from 'ajv';
import { parse, parseAllDocuments } from 'yaml';
import { ENVIRONMENT, SECRET_NAMES } from '../../shared/config/environment.js';
import { LIMITS } from '../../shared/config/limits.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { freePort } from '../harness/free-port.js';
import { itWith, runProgram, startProgram } from '../harness/programs.js';
import { until } from '../harness/until.js';

const CHART = join(projectRoot(), 'deploy/helm');
const read = (path: string) => readFileSync(join(CHART, path), 'utf8');

type Resource = { kind: string; metadata: { name: string; annotations?: Record<string, string> } } & Record<
  string,
  any
>;

/** The chart as Kubernetes would get it, with every part. */
async function render(...args: string[]): Promise<Resource[]> {
  const { status, stdout, stderr } = await runProgram('helm', ['template', 'sale', CHART, '-f', everything, ...args]);
  if (status !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout).map((document) => document.toJS() as Resource);
}
const everything = join(CHART, 'ci/everything.yaml');

const ofKind = (resources: readonly Resource[], kind: string) => resources.filter((one) => one.kind === kind);
/** Pods of Deployments and Jobs. */
const podsOf = (resources: readonly Resource[]) =>
  resources
    .filter(({ spec }) => spec?.template?.spec?.containers)
    .map(({ kind, spec }) => ({ kind, ...spec.template.spec }));

describe('the values of the chart', () => {
  const values = parse(read('values.yaml'));
  const smallest = parse(read('ci/smallest.yaml'));
  const given = {
    ...values,
    image: { ...values.image, ...smallest.image },
    config: { ...values.config, ...smallest.config },
  };
  const accepts = new Ajv({ strict: false }).compile(JSON.parse(read('values.schema.json')));

  it('are described whole by the schema, which rejects any other name', () => {
    expect(accepts(given) || accepts.errors).toBe(true);
    for (const [group, entries] of Object.entries<object>(given)) {
      if (typeof entries !== 'object' || Array.isArray(entries)) continue;
      expect(accepts({ ...given, [group]: { ...entries, mispelt: 1 } })).toBe(false);
    }
    expect(accepts({ ...given, apis: {} })).toBe(false);
  });

  it('cannot contain a secret', () => {
    for (const name of SECRET_NAMES) {
      expect(accepts({ ...given, config: { ...given.config, [name]: 'value' } })).toBe(false);
      expect(accepts({ ...given, secrets: { ...given.secrets, [name]: 'value' } })).toBe(false);
      expect(accepts({ ...given, secrets: { ...given.secrets, [name]: { name: 'a', key: 'b' } } })).toBe(true);
    }
  });

  it('leave more time than a process takes to stop', () => {
    const stopSeconds = (LIMITS.shutdown.stopMs + 1_000) / 1_000;
    const { api, worker } = values;
    expect(api.terminationGracePeriodSeconds).toBeGreaterThan(api.preStopSeconds + stopSeconds);
    expect(worker.terminationGracePeriodSeconds).toBeGreaterThan(stopSeconds);
  });
});

describe('the chart', () => {
  it('has the version of the project', () => {
    const { version } = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8')) as { version: string };
    expect(parse(read('Chart.yaml')).appVersion).toBe(version);
  });

  it('names only environment variables that the service reads', () => {
    const inTemplate = [...read('templates/configmap.yaml').matchAll(/^ {2}([A-Z_]+):/gm)].map(([, name]) =>
      String(name),
    );
    const { config, secrets } = parse(read('values.yaml'));
    const names = [...inTemplate, ...Object.keys({ ...config, ...secrets })];
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !Object.hasOwn(ENVIRONMENT, name))).toEqual([]);
  });

  it('has no copies of rules and dashboard', () => {
    for (const name of ['prometheus-alerts.yml', 'grafana-dashboard.json'])
      expect(realpathSync(join(CHART, 'files', name))).toBe(realpathSync(join(projectRoot(), 'deploy', name)));
  });

  itWith('helm')('sets only environment variables that the service reads, and secrets by reference', async () => {
    const resources = await render();
    const config = ofKind(resources, 'ConfigMap').find(({ metadata }) => metadata.name === 'sale');
    const env = podsOf(resources).flatMap(({ containers }) => containers.flatMap((one: any) => one.env ?? []));
    expect(env.length).toBeGreaterThan(10);
    const names = [...Object.keys(config?.data), ...env.map(({ name }) => name)];
    expect(names.filter((name) => !Object.hasOwn(ENVIRONMENT, name))).toEqual([]);
    expect(env.filter(({ value, valueFrom }) => value !== undefined || !valueFrom?.secretKeyRef)).toEqual([]);
    expect(ofKind(resources, 'Secret')).toEqual([]);
    expect(config?.data.JOURNAL_LIMIT).toBe('2000000');
  });

  itWith('helm')('runs every container without root and without a writable root filesystem', async () => {
    const pods = podsOf(await render());
    expect(pods.map(({ kind }) => kind).sort()).toEqual(['Deployment', 'Deployment', 'Deployment', 'Job']);
    for (const pod of pods) {
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
      expect(pod.automountServiceAccountToken).toBe(false);
      for (const container of pod.containers) {
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        expect(container.resources).toMatchObject({ requests: { memory: /./ }, limits: { memory: /./ } });
        expect(container.volumeMounts).toContainEqual({ name: 'tmp', mountPath: '/tmp' });
      }
    }
  });

  itWith('helm')('migrates before an installation and an update, by a connection of its own', async () => {
    const [job] = ofKind(await render(), 'Job');
    expect(job?.metadata.annotations?.['helm.sh/hook']).toBe('pre-install,pre-upgrade');
    const [container] = job?.spec.template.spec.containers ?? [];
    expect(container.args).toEqual(['node', 'dist/migrations/main.js']);
    expect(container.env[0].valueFrom.secretKeyRef).toEqual({ name: 'doorbuster-direct', key: 'url' });
  });

  itWith('helm')('keeps the pods of an update in service until their successors are ready', async () => {
    const deployments = ofKind(await render(), 'Deployment');
    expect(deployments.length).toBe(3);
    for (const { spec } of deployments) {
      expect(spec.strategy.rollingUpdate.maxUnavailable).toBe(0);
      const keys = spec.template.spec.topologySpreadConstraints.map(({ topologyKey }: any) => topologyKey);
      expect(keys).toEqual(['kubernetes.io/hostname', 'topology.kubernetes.io/zone']);
    }
    expect(ofKind(await render(), 'PodDisruptionBudget').length).toBe(3);
  });

  itWith('helm')('scales readers and writers apart, and sends each path to its role', async () => {
    const argsOf = (resources: readonly Resource[]) =>
      ofKind(resources, 'Deployment').map(({ metadata, spec }) => [
        metadata.name,
        spec.template.spec.containers[0].args.slice(3).join(' '),
      ]);
    const resources = await render();
    expect(argsOf(resources)).toEqual([
      ['sale-api', 'write'],
      ['sale-readers', 'read'],
      ['sale-worker', ''],
    ]);
    const scaled = ofKind(resources, 'HorizontalPodAutoscaler').map(({ spec }) => spec.scaleTargetRef.name);
    expect(scaled).toEqual(['sale-api', 'sale-readers']);
    const [ingress] = ofKind(resources, 'Ingress');
    const paths = ingress?.spec.rules[0].http.paths.map(({ path, backend }: any) => [path, backend.service.name]);
    const backends = Object.fromEntries(paths);
    expect(Object.keys(backends).length).toBe(paths.length);
    expect(backends).toMatchObject({
      '/flash-sale': 'sale',
      '/coupons': 'sale',
      '/coupons/validate': 'sale-readers',
      '/flash-sale/ws': 'sale-readers',
      '/sale': 'sale-readers',
    });
    const config = ofKind(resources, 'ConfigMap').find(({ metadata }) => metadata.name === 'sale');
    expect(config?.data.API_WRITE_URL).toBe('http://sale:80');
    expect(argsOf(await render('--set', 'api.role=all'))[0]).toEqual(['sale-api', 'all']);
    const together = await render('--set', 'readers.enabled=false');
    expect(argsOf(together)).toEqual([
      ['sale-api', 'all'],
      ['sale-worker', ''],
    ]);
    expect(JSON.stringify(together)).not.toContain('readers');
  });

  itWith('helm')('selects by each label pods that exist', async () => {
    const resources = await render();
    const labels = resources.map(({ spec }) => spec?.template?.metadata?.labels).filter(Boolean);
    const selectors = [
      ...ofKind(resources, 'Service').map(({ spec }) => spec.selector),
      ...ofKind(resources, 'NetworkPolicy').map(({ spec }) => spec.podSelector.matchLabels),
      ...ofKind(resources, 'PodDisruptionBudget').map(({ spec }) => spec.selector.matchLabels),
    ];
    expect(selectors.length).toBe(10);
    const fits = (selector: object) =>
      labels.filter((one) => Object.entries(selector).every(([name, value]) => one[name] === value)).length;
    expect(selectors.map(fits)).toEqual(selectors.map(() => 1));
  });

  itWith('helm')('gives Prometheus the rules of deploy/ as they are', async () => {
    const [rule] = ofKind(await render(), 'PrometheusRule');
    const alerts = readFileSync(join(projectRoot(), 'deploy/prometheus-alerts.yml'), 'utf8');
    expect(rule?.spec).toEqual(parse(alerts));
    const dashboard = ofKind(await render(), 'ConfigMap').find(({ metadata }) => metadata.name === 'sale-dashboard');
    const file = readFileSync(join(projectRoot(), 'deploy/grafana-dashboard.json'), 'utf8');
    expect(JSON.parse(dashboard?.data['doorbuster.json'])).toEqual(JSON.parse(file));
  });

  // Each API returns the sum of all processes: with a target for each pod every counter would be multiplied.
  itWith('helm', 'prometheus')('makes Prometheus scrape one target, however many pods there are', async () => {
    const [monitor] = ofKind(await render(), 'ServiceMonitor');
    const [endpoint] = monitor?.spec.endpoints ?? [];
    const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const relabel = endpoint.relabelings.map((rule: object) =>
      Object.fromEntries(Object.entries(rule).map(([name, value]) => [snake(name), value])),
    );
    const pods = ['a', 'b', 'c'].map((pod, i) => ({
      targets: [`127.0.0.1:${20 + i}`],
      labels: { namespace: 'shop', service: 'sale-ops', endpoint: 'ops', container: 'api', pod, node: `node-${pod}` },
    }));
    const folder = mkdtempSync(join(tmpdir(), 'doorbuster-prometheus-'));
    atEnd('its folder', () => rmSync(folder, { recursive: true, force: true }));
    const config = join(folder, 'prometheus.yml');
    writeFileSync(
      config,
      JSON.stringify({ scrape_configs: [{ job_name: 'sale', relabel_configs: relabel, static_configs: pods }] }),
    );
    const url = `127.0.0.1:${await freePort()}`;
    startProgram(
      'prometheus',
      [`--config.file=${config}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=${url}`],
      folder,
    );
    const targets = await until('Prometheus has targets', async () => {
      const response = await fetch(`http://${url}/api/v1/targets`).catch(() => null);
      if (!response?.ok) return null;
      const { data } = (await response.json()) as { data: { activeTargets: { scrapeUrl: string }[] } };
      return data.activeTargets.length > 0 && data.activeTargets;
    });
    expect(targets.map(({ scrapeUrl }) => scrapeUrl)).toEqual(['http://sale-ops.default.svc:8103/metrics']);
  });
});
