import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ClickHouseClient, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { atEnd } from '../harness/cleanup.js';
import { freePort } from '../harness/free-port.js';
import { until } from '../harness/until.js';

/** What the server of Debian, 18.16, lacks of schema.sql and dashboard.sql, and what it has in its place. */
const OLDER: [today: RegExp, then: string][] = [
  [/DateTime64\(3, 'UTC'\)/g, "DateTime('UTC')"],
  [/LowCardinality\(String\)/g, 'String'],
  [/ CODEC\(ZSTD\(3\)\)/g, ''],
  [/dateDiff\('millisecond', (.*?\)), (.*?\))\) \/ 1000/gs, "toFloat64(dateDiff('second', $1, $2))"],
  [/JSONExtractString/g, 'visitParamExtractString'],
];

/** A real server of ClickHouse for a test file, of 2018, on the loopback. */
export async function startServerOf2018() {
  const directory = await mkdtemp(join(tmpdir(), 'doorbuster-clickhouse-'));
  const [port, tcpPort] = [await freePort(), await freePort()];
  const file = join(directory, 'config.xml');
  await writeFile(file, configuration(directory, port, tcpPort));
  await writeFile(join(directory, 'users.xml'), USERS);
  const url = `http://127.0.0.1:${port}`;
  const client = createClient({ url, log: { level: ClickHouseLogLevel.OFF } });
  let server: ChildProcess;
  const start = async () => {
    const program = String(process.env.DOORBUSTER_TEST_CLICKHOUSE);
    server = spawn(program, [`--config-file=${file}`], { cwd: directory, stdio: 'ignore' });
    await until('the server of ClickHouse answers', async () => {
      if (server.exitCode !== null) throw new Error(`it ended with ${server.exitCode}: ${directory}/server.log`);
      return (await client.ping()).success;
    });
    // So that repetitions stay, and the queries have to leave them out.
    await client.command({ query: 'SYSTEM STOP MERGES' });
  };
  const kill = async () => {
    const ended = once(server, 'exit');
    server.kill('SIGKILL');
    await ended;
  };
  await start();
  atEnd('the server of ClickHouse', async () => {
    await client.close();
    await kill();
    await rm(directory, { recursive: true, force: true });
  });
  return { client: inOlderSql(client), kill, start };
}

/** Today's client; statements are put into the SQL of the server, and parameters into the statements. */
function inOlderSql(client: ClickHouseClient): ClickHouseClient {
  const older = (query: string, parameters: Record<string, unknown> = {}) => {
    const text = OLDER.reduce((changed, [today, then]) => changed.replace(today, then), query);
    return text.replace(/\{(\w+):UUID\}/g, (_, name) => `toUUID('${parameters[name]}')`);
  };
  return {
    command: ({ query }: { query: string }) => client.command({ query: older(query) }),
    query: ({ query, query_params, ...more }: Parameters<ClickHouseClient['query']>[0]) =>
      client.query({ ...more, query: older(query, query_params) }),
    insert: (insertion: Parameters<ClickHouseClient['insert']>[0]) => client.insert(insertion),
  } as unknown as ClickHouseClient;
}

const configuration = (directory: string, port: number, tcpPort: number) => `<yandex>
  <logger><level>information</level><log>${directory}/server.log</log></logger>
  <listen_host>127.0.0.1</listen_host><http_port>${port}</http_port><tcp_port>${tcpPort}</tcp_port>
  <path>${directory}/data/</path><tmp_path>${directory}/tmp/</tmp_path>
  <user_files_path>${directory}/files/</user_files_path><format_schema_path>${directory}/schemas/</format_schema_path>
  <mark_cache_size>67108864</mark_cache_size>
  <users_config>${directory}/users.xml</users_config><default_profile>default</default_profile>
  <default_database>default</default_database>
</yandex>
`;
const USERS = `<yandex>
  <profiles><default/></profiles><quotas><default/></quotas>
  <users><default>
    <password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>
  </default></users>
</yandex>
`;
