import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { projectRoot } from '../../shared/config/project-root.js';
import { Operator } from '../harness/clients.js';
import { metricsText } from '../harness/metrics.js';
import { startService } from '../harness/service.js';
import { checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await startService();
const read = (name: string) => readFileSync(join(projectRoot(), 'deploy', name), 'utf8');

type Panel = {
  id: number;
  type: string;
  title: string;
  description?: string;
  targets?: { expr: string }[];
  fieldConfig?: { defaults: { links?: { url: string }[]; thresholds?: { steps: object[] } } };
};
const dashboard = JSON.parse(read('grafana-dashboard.json')) as {
  panels: Panel[];
  templating: { list: { name: string }[] };
};
type Alert = {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: { summary: string; runbook_url: string };
};
const alerts = (parse(read('prometheus-alerts.yml')) as { groups: { rules: Alert[] }[] }).groups.flatMap(
  ({ rules }) => rules,
);
const RUNBOOK = 'https://doorbuster.dev/docs/runbook#';
const expressions = {
  'prometheus-alerts.yml': alerts.map(({ expr }) => expr),
  'grafana-dashboard.json': dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
};

/** Names of samples that /metrics has or will have: those of counters and gauges, and the three of each histogram. */
async function exportedNames(): Promise<Set<string>> {
  const text = await metricsText(service.url);
  return new Set(
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name, type]) =>
      type === 'histogram' ? ['bucket', 'sum', 'count'].map((part) => `${name}_${part}`) : [String(name)],
    ),
  );
}

for (const [file, found] of Object.entries(expressions)) {
  test(`every metric in deploy/${file} is exported`, async () => {
    const names = await exportedNames();
    expect(names.size).toBeGreaterThan(30);
    expect(found.length).toBeGreaterThan(10);
    const asked = found.flatMap((expr) => {
      const own = [...expr.matchAll(/\bdoorbuster_\w+/g)].map(([name]) => name);
      return own.length > 0 ? own : [`nothing in ${expr}`];
    });
    expect(asked.filter((name) => !names.has(name))).toEqual([]);
  });
}

test('alerts and panels have a name each', () => {
  expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length);
  const { panels } = dashboard;
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
});

test('every alert and every link of a panel leads to a section of the runbook', () => {
  const runbook = readFileSync(join(projectRoot(), 'docs', 'runbook.md'), 'utf8');
  const anchors = [...runbook.matchAll(/^## (.+)$/gm)].map(([, heading]) => RUNBOOK + anchorOf(String(heading)));
  const links = [
    ...alerts.map(({ alert, annotations }) => [alert, annotations.runbook_url]),
    ...dashboard.panels.flatMap(({ title, fieldConfig }) =>
      (fieldConfig?.defaults.links ?? []).map(({ url }) => [title, url]),
    ),
  ];
  expect(links.length).toBeGreaterThan(alerts.length);
  expect(links.filter(([, url]) => !anchors.includes(String(url)))).toEqual([]);
  const unknown = alerts.filter(
    ({ labels, annotations }) => !/^(page|ticket)$/.test(labels.severity) || !annotations.summary,
  );
  expect(unknown).toEqual([]);
});

test('the runbook names every alert, and its links lead to its sections', () => {
  const runbook = readFileSync(join(projectRoot(), 'docs', 'runbook.md'), 'utf8');
  const anchors = [...runbook.matchAll(/^## (.+)$/gm)].map(([, heading]) => anchorOf(String(heading)));
  const links = [...runbook.matchAll(/\]\(#([^)]+)\)/g)].map(([, anchor]) => String(anchor));
  expect(links.length).toBeGreaterThan(20);
  expect(links.filter((anchor) => !anchors.includes(anchor))).toEqual([]);
  expect(alerts.map(({ alert }) => alert).filter((name) => !runbook.includes(`\`${name}\``))).toEqual([]);
});

test('the dashboard opens with the health of the sale, by thresholds', () => {
  const [first, ...rest] = dashboard.panels;
  expect([first?.type, first?.title]).toEqual(['row', 'Is the sale healthy?']);
  const stats = rest.slice(
    0,
    rest.findIndex(({ type }) => type === 'row'),
  );
  expect(stats.length).toBeGreaterThan(5);
  expect(stats.filter(({ type, fieldConfig }) => type !== 'stat' || !fieldConfig?.defaults.thresholds)).toEqual([]);
  expect(dashboard.panels.filter(({ type, description }) => type !== 'row' && description === undefined)).toEqual([]);
  expect(dashboard.templating.list.map(({ name }) => name)).toEqual(['source', 'campaign']);
});

/** The anchor that GitHub makes of a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-');
}

test('the metrics of the journal agree with it', async () => {
  const value = async (name: string) => {
    const text = await metricsText(service.url);
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')[1],
    );
  };
  await until('all is in Postgres', async () => (await value('doorbuster_journal_backlog_entries{shard="0"}')) === 0);
  expect(await value('doorbuster_journal_oldest_seconds{shard="0"}')).toBe(0);
});

test('the metrics of the sale show a campaign, its units and the processes', async () => {
  const operator = new Operator(service.url);
  const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900 });
  await checkoutInTurn(gatherShoppers(service.url, product, 1));
  // The list of live campaigns is read every ten seconds at most.
  const text = await until(
    'the campaign is shown',
    async () => {
      const found = await metricsText(service.url);
      return found.includes(`doorbuster_campaign_info{campaign="${product}",status="open"} 1`) ? found : null;
    },
    30_000,
  );
  const lines = text.split('\n');
  expect(lines).toEqual(
    expect.arrayContaining([
      `doorbuster_campaign_units{campaign="${product}",state="free"} 1`,
      `doorbuster_campaign_units{campaign="${product}",state="held"} 1`,
      'doorbuster_shards_out_of_service 0',
      'doorbuster_processes{kind="api"} 1',
    ]),
  );
  await until('the worker has posted', async () =>
    (await metricsText(service.url)).includes('doorbuster_processes{kind="worker"} 1'),
  );
  expect(text).toMatch(/^doorbuster_build_info\{component="api",version="\d+\.\d+\.\d+",node="v\d+/m);
});
