// The schema of the chart's values (deploy/helm/values.schema.json). Helm rejects values that it does not name. The
// settings of the service come from the table of the environment, so that the chart knows each of them.

/** What the chart sets itself, because its probes, ports and Services depend on it. */
const SET_BY_CHART = new Set(['NODE_ENV', 'HOST', 'PORT', 'OPS_PORT', 'WORKER_PORT', 'API_ROLE', 'API_WRITE_URL']);

/** @typedef {Record<string, unknown>} Schema */

const text = { type: 'string' };
const flag = { type: 'boolean' };
const free = { type: 'object' };
const strings = { type: 'object', additionalProperties: text };
const count = (minimum = 0) => ({ type: 'integer', minimum });
/** @param {Schema} items */
const list = (items) => ({ type: 'array', items });

/**
 * An object that has no other properties.
 * @param {Record<string, Schema>} properties
 * @param {string[]} [required]
 * @returns {Schema}
 */
const only = (properties, required = []) => ({
  type: 'object',
  additionalProperties: false,
  properties,
  ...(required.length > 0 ? { required } : {}),
});

const secretKey = only({ name: { ...text, minLength: 1 }, key: { ...text, minLength: 1 } }, ['name', 'key']);
const resources = only({ requests: free, limits: free });
const pods = {
  replicas: count(),
  resources,
  terminationGracePeriodSeconds: count(1),
  podDisruptionBudget: only({ enabled: flag, maxUnavailable: { type: ['integer', 'string'] } }),
  nodeSelector: strings,
  tolerations: list(free),
  affinity: free,
  priorityClassName: text,
  podAnnotations: strings,
};
const peers = only({ to: list(free), ports: list(count(1)) });

/**
 * @param {Record<string, { description?: string | undefined }>} environment name → its form and meaning
 * @param {ReadonlySet<string>} secretNames names whose values may only be references
 * @returns {string} the document
 */
export function helmSchema(environment, secretNames) {
  const names = Object.keys(environment).filter((name) => !SET_BY_CHART.has(name));
  /** @param {string} name */
  const meaning = (name) => ({ description: environment[name]?.description ?? '' });
  const config = Object.fromEntries(
    names
      .filter((name) => !secretNames.has(name))
      .map((name) => [name, { type: ['string', 'integer'], ...meaning(name) }]),
  );
  const secrets = Object.fromEntries(names.map((name) => [name, { ...secretKey, ...meaning(name) }]));
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    $comment: 'Made by `npm run docs` from scripts/helm-schema.mjs and shared/config/environment.ts; do not edit.',
    ...only(
      {
        global: free,
        nameOverride: text,
        image: only({ repository: { ...text, minLength: 1 }, tag: text, pullPolicy: text }, ['repository']),
        imagePullSecrets: list(free),
        config: only(config, ['SHOPPER_IDENTITY']),
        secrets: only(secrets, ['REDIS_URL', 'DATABASE_URL']),
        certificates: only({ secretName: text }),
        api: only({ ...pods, role: { enum: ['', 'all', 'write'] }, preStopSeconds: count(1) }),
        readers: only({
          ...pods,
          enabled: flag,
          preStopSeconds: count(1),
          autoscaling: only({ enabled: flag, minReplicas: count(1), maxReplicas: count(1), cpuPercent: count(1) }),
        }),
        worker: only(pods),
        migration: only({
          enabled: flag,
          databaseUrl: { anyOf: [{ ...free, maxProperties: 0 }, secretKey] },
          resources,
        }),
        ...traffic(),
        monitoring: only({
          serviceMonitor: only({ enabled: flag, interval: text, labels: strings }),
          prometheusRule: only({ enabled: flag, labels: strings }),
          grafanaDashboard: only({ enabled: flag, labels: strings }),
        }),
      },
      ['image', 'config', 'secrets'],
    ),
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

/** @returns {Record<string, Schema>} how many pods there are, where they run, and who reaches them */
function traffic() {
  return {
    autoscaling: only({
      enabled: flag,
      minReplicas: count(1),
      maxReplicas: count(1),
      cpuPercent: count(1),
      checkoutsInFlight: only({ enabled: flag, perPod: count(1) }),
    }),
    topologySpread: only({ enabled: flag, whenUnsatisfiable: { enum: ['ScheduleAnyway', 'DoNotSchedule'] } }),
    service: only({ type: { enum: ['ClusterIP', 'NodePort', 'LoadBalancer'] }, port: count(1), annotations: strings }),
    ingress: {
      ...only({
        enabled: flag,
        className: text,
        host: text,
        paths: list({ ...text, pattern: '^/' }),
        readPaths: list({ ...text, pattern: '^/' }),
        tls: only({ enabled: flag, secretName: text }),
        annotations: strings,
      }),
      if: { properties: { enabled: { const: true } } },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { properties: { host: { minLength: 1 } } },
    },
    serviceAccount: only({ create: flag, name: text, annotations: strings }),
    networkPolicy: only({
      enabled: flag,
      fromIngress: list(free),
      fromOperators: list(free),
      redis: peers,
      postgres: peers,
      https: peers,
      extraEgress: list(free),
    }),
  };
}
