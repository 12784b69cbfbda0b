import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { metricsText } from '../harness/metrics.js';
import { startService } from '../harness/service.js';
import { until } from '../harness/until.js';

const service = await startService();
const read = (name: string) => readFileSync(join(projectRoot(), 'deploy', name), 'utf8');

type Dashboard = { panels: { id: number; title: string; targets: { expr: string }[] }[] };
const dashboard = JSON.parse(read('grafana-dashboard.json')) as Dashboard;
const rules = read('prometheus-alerts.yml');
const expressions = {
  'prometheus-alerts.yml': [...rules.matchAll(/^\s+expr: (.+)$/gm)].map(([, expr]) => String(expr)),
  'grafana-dashboard.json': dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
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
  const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  expect(alerts.length).toBe(expressions['prometheus-alerts.yml'].length);
  expect(new Set(alerts).size).toBe(alerts.length);
  const { panels } = dashboard;
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
});

test('an alert that pages links a section of the runbook, and every link has one', () => {
  const runbook = readFileSync(join(projectRoot(), 'docs', 'runbook.md'), 'utf8');
  const anchors = [...runbook.matchAll(/^## (.+)$/gm)].map(([, heading]) => anchorOf(String(heading)));
  const alerts = rules.split(/^\s+- alert: /m).slice(1);
  const links = alerts.map((text) => ({
    name: /^\w+/.exec(text)?.[0],
    pages: text.includes('severity: page'),
    anchor: /^\s+runbook: docs\/runbook\.md(?:#(\S+))?$/m.exec(text)?.[1],
    isLinked: text.includes('runbook:'),
  }));
  expect(links.filter(({ pages }) => pages).length).toBeGreaterThan(5);
  expect(links.filter(({ pages, isLinked }) => pages && !isLinked)).toEqual([]);
  expect(links.filter(({ isLinked, anchor }) => isLinked && !anchors.includes(anchor ?? ''))).toEqual([]);
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
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  };
  await until('all is in Postgres', async () => (await value('doorbuster_journal_backlog_entries')) === 0);
  expect(await value('doorbuster_journal_oldest_seconds')).toBe(0);
});
