// Starts a private Kafka broker for `npm run test:kafka`: one process that is broker and controller, on the loopback
// only. The broker comes from Maven Central, so Java and Maven are needed. Nothing else in the project needs them.
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { closeLog, openLog, tailOf } from '../logfile.mjs';
import { freePort } from '../ports.mjs';
import { Problem } from '../problem.mjs';
import { launch, run } from '../processes.mjs';
import { pause } from '../waiting.mjs';
import { clearHalfDone, moveInto } from './apt.mjs';

const VERSION = '4.1.0';
const MIN_JAVA = 17;
const ENGINES = join(dirname(dirname(dirname(fileURLToPath(import.meta.url)))), '.engines');
const HOME = join(ENGINES, `kafka-${VERSION}`);
const DOWNLOAD_LIMIT_MS = 600_000;
const FORMAT_LIMIT_MS = 120_000;
const STOP_LIMIT_MS = 30_000;
const LISTENER = { none: 'PLAINTEXT', sasl: 'SASL_SSL' };

/** @typedef {import('./engine.js').KafkaOptions} KafkaOptions */
/** @typedef {import('./engine.js').RunningKafka} RunningKafka */

/**
 * Finds the libraries of the broker, or downloads them once (about 45 MB).
 * @param {{ say?: (note: string) => void }} [options]
 * @returns {Promise<string>} the folder with the libraries
 * @throws {Problem} when Java or Maven is missing
 */
export async function findKafka({ say = () => {} } = {}) {
  await requireJava();
  if (existsSync(HOME)) return HOME;
  await requireMaven();
  mkdirSync(ENGINES, { recursive: true });
  clearHalfDone(HOME);
  const draft = `${HOME}.new-${process.pid}`;
  mkdirSync(draft, { recursive: true });
  try {
    say(`fetching Kafka ${VERSION} with Maven`);
    writeFileSync(join(draft, 'pom.xml'), projectFile());
    const libraries = join(draft, 'libs');
    const args = ['-B', '-q', 'dependency:copy-dependencies', `-DoutputDirectory=${libraries}`];
    const { code, output } = await run('mvn', args, { cwd: draft, limitMs: DOWNLOAD_LIMIT_MS });
    if (code !== 0 || !existsSync(libraries))
      throw new Problem('Maven could not fetch Kafka.', {
        details: output.trim().split('\n').slice(-8).join('\n'),
        remedy: 'Maven Central must be reachable, directly or through a mirror in ~/.m2/settings.xml.',
      });
    moveInto(libraries, HOME);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  return HOME;
}

async function requireJava() {
  const found = await run('java', ['-version'], { limitMs: 60_000 }).catch(() => undefined);
  const major = Number(/version "(\d+)/.exec(found?.output ?? '')?.[1] ?? 0);
  if (major >= MIN_JAVA) return;
  const what = major === 0 ? 'Java is missing' : `Java ${major} is too old`;
  throw new Problem(`${what}: the tests with Kafka need Java ${MIN_JAVA} or newer.`, {
    remedy: 'Install it, on Debian and Ubuntu with: apt-get install default-jre-headless maven',
  });
}

async function requireMaven() {
  const found = await run('mvn', ['-version'], { limitMs: 60_000 }).catch(() => undefined);
  if (found?.code === 0) return;
  throw new Problem('Maven is missing: the tests with Kafka fetch the broker with it, once.', {
    remedy: 'Install it, on Debian and Ubuntu with: apt-get install maven',
  });
}

function projectFile() {
  return `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>dev.doorbuster</groupId><artifactId>kafka-for-tests</artifactId><version>1</version>
<dependencies><dependency>
  <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${VERSION}</version>
</dependency></dependencies></project>
`;
}

/**
 * Starts a broker and returns when it accepts connections. A data directory that was formatted before is used as it is.
 * @param {KafkaOptions} options
 * @returns {Promise<RunningKafka>}
 */
export async function startKafka({
  libraries,
  dataDir,
  port,
  controllerPort,
  sasl,
  properties = {},
  readyLimitMs = 180_000,
}) {
  const directory = resolve(dataDir);
  mkdirSync(directory, { recursive: true });
  const ports = { broker: port ?? (await freePort()), controller: controllerPort ?? (await freePort()) };
  const file = join(directory, 'server.properties');
  writeFileSync(file, propertiesText({ ...settings(directory, ports, sasl), ...properties }), { mode: 0o600 });
  const java = ['-Xmx400m', '-cp', join(libraries, '*')];
  if (!existsSync(join(directory, 'data', 'meta.properties'))) await format(java, file, sasl);
  const log = join(directory, 'kafka.log');
  const { descriptor, start } = openLog(log);
  const running = await launch('java', [...java, 'kafka.Kafka', file], {
    cwd: directory,
    stdio: ['ignore', descriptor, descriptor],
  }).finally(() => closeLog(descriptor));
  const end = Date.now() + readyLimitMs;
  while (!(await accepts(ports.broker))) {
    const exit = running.exit();
    if (exit === undefined && Date.now() < end) await pause(50);
    else {
      await running.stop(STOP_LIMIT_MS);
      const why = exit ? `it ended with ${exit.signal ?? `code ${exit.code}`}` : `not ready after ${readyLimitMs} ms`;
      throw new Problem(`Kafka did not start: ${why}.`, { details: tailOf(log, { start }), remedy: `Its log: ${log}` });
    }
  }
  const { pid, exited, kill, stop } = running;
  return {
    brokers: `127.0.0.1:${ports.broker}`,
    port: ports.broker,
    controllerPort: ports.controller,
    pid,
    exited,
    kill,
    stop: (limitMs = STOP_LIMIT_MS) => stop(limitMs),
  };
}

/**
 * @param {string[]} java
 * @param {string} file
 * @param {KafkaOptions['sasl']} sasl
 */
async function format(java, file, sasl) {
  const users = sasl ? ['--add-scram', `${sasl.mechanism}=[name=${sasl.username},password=${sasl.password}]`] : [];
  const id = Buffer.from(crypto.getRandomValues(new Uint8Array(16)))
    .toString('base64url')
    .replace(/^-/, 'A');
  const args = [...java, 'kafka.tools.StorageTool', 'format', '-t', id, '-c', file, ...users];
  const { code, output } = await run('java', args, { limitMs: FORMAT_LIMIT_MS });
  if (code !== 0) throw new Problem('The storage of Kafka could not be formatted.', { details: output.trim() });
}

/**
 * @param {string} directory
 * @param {{ broker: number, controller: number }} ports
 * @param {KafkaOptions['sasl']} sasl
 * @returns {Record<string, string>}
 */
function settings(directory, ports, sasl) {
  const listener = sasl ? LISTENER.sasl : LISTENER.none;
  return {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@127.0.0.1:${ports.controller}`,
    listeners: `${listener}://127.0.0.1:${ports.broker},CONTROLLER://127.0.0.1:${ports.controller}`,
    'advertised.listeners': `${listener}://127.0.0.1:${ports.broker}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': listener,
    'listener.security.protocol.map': `CONTROLLER:PLAINTEXT,${listener}:${listener}`,
    'log.dirs': join(directory, 'data'),
    'auto.create.topics.enable': 'false',
    'offsets.topic.num.partitions': '1',
    'offsets.topic.replication.factor': '1',
    'group.initial.rebalance.delay.ms': '0',
    ...(sasl
      ? {
          'sasl.enabled.mechanisms': sasl.mechanism,
          'sasl.mechanism.inter.broker.protocol': sasl.mechanism,
          [`listener.name.sasl_ssl.${sasl.mechanism.toLowerCase()}.sasl.jaas.config`]: `org.apache.kafka.common.security.scram.ScramLoginModule required username="${sasl.username}" password="${sasl.password}";`,
          'ssl.keystore.type': 'PKCS12',
          'ssl.keystore.location': sasl.keystore,
          'ssl.keystore.password': sasl.storePassword,
          'ssl.truststore.type': 'PKCS12',
          'ssl.truststore.location': sasl.truststore,
          'ssl.truststore.password': sasl.storePassword,
        }
      : {}),
  };
}

/** @param {Record<string, string>} values */
function propertiesText(values) {
  return `${Object.entries(values)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n')}\n`;
}

/** @param {number} port */
async function accepts(port) {
  const socket = connect({ port, host: '127.0.0.1' });
  const accepted = await new Promise((done) => {
    socket.once('connect', () => done(true));
    socket.once('error', () => done(false));
  });
  socket.destroy();
  return accepted;
}
