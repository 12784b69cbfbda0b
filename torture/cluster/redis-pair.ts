import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { RunningEngine } from '../../scripts/engines/engine.js';
import type { Tools } from '../tools.js';

const LOOK_EVERY_MS = 20;
const REPLICA_LIMIT_MS = 20_000;
const FAILOVER_MS = 5_000;
const SETTINGS = ['--repl-diskless-sync-delay', '0', '--auto-aof-rewrite-percentage', '0', '--repl-timeout', '10'];

export type RedisServer = { name: string; port: number; folder: string; engine: RunningEngine | null };

/** A primary and a replica on fixed ports. Both write every command to disk before they acknowledge it. */
export class RedisPair {
  primary: RedisServer;
  replica: RedisServer;

  private constructor(
    readonly tools: Tools,
    readonly binary: string,
    servers: [RedisServer, RedisServer],
  ) {
    [this.primary, this.replica] = servers;
  }

  static async start(tools: Tools, folder: string, binary: string): Promise<RedisPair> {
    const server = async (name: string): Promise<RedisServer> => ({
      name,
      port: await tools.freePort(),
      folder: join(folder, name),
      engine: null,
    });
    const pair = new RedisPair(tools, binary, [await server('redis-a'), await server('redis-b')]);
    await pair.launch(pair.primary);
    await pair.join(pair.replica);
    return pair;
  }

  /** Starts a server on the data that its folder has. */
  async launch(server: RedisServer, replicaOf?: RedisServer): Promise<void> {
    const role = replicaOf ? ['--replicaof', '127.0.0.1', String(replicaOf.port)] : [];
    server.engine = await this.tools.startRedis({
      dataDir: server.folder,
      binary: this.binary,
      port: server.port,
      logFile: `${server.folder}.log`,
      extraArgs: [...SETTINGS, ...role],
    });
  }

  /**
   * Makes a server the replica: starts it when it does not run. Returns when it has everything that the primary has.
   */
  async join(server: RedisServer): Promise<void> {
    if (server.engine) {
      await this.command(server, ['REPLICAOF', '127.0.0.1', this.primary.port]);
    } else {
      await rm(server.folder, { recursive: true, force: true });
      await this.launch(server, this.primary);
    }
    await this.replicated();
  }

  /** Waits until the replica has everything that the primary has. */
  async replicated(limitMs = REPLICA_LIMIT_MS): Promise<boolean> {
    const end = performance.now() + limitMs;
    while (performance.now() < end) {
      const info = await this.info(this.replica).catch(() => null);
      if (info?.get('master_link_status') === 'up' && info.get('master_sync_in_progress') === '0') return true;
      await sleep(LOOK_EVERY_MS);
    }
    return false;
  }

  async kill(server: RedisServer): Promise<void> {
    server.engine?.kill('SIGKILL');
    await server.engine?.exited;
    server.engine = null;
  }

  /** The replica becomes a primary of its own. The other server does not learn of it. */
  async promote(): Promise<void> {
    await this.command(this.replica, ['REPLICAOF', 'NO', 'ONE']);
    [this.primary, this.replica] = [this.replica, this.primary];
  }

  /** A failover without loss: the primary hands over and becomes a replica, its connections stay open. */
  async failOver(): Promise<boolean> {
    const { primary, replica } = this;
    await this.command(primary, ['FAILOVER', 'TO', '127.0.0.1', replica.port, 'TIMEOUT', FAILOVER_MS]);
    const end = performance.now() + 2 * FAILOVER_MS;
    while (performance.now() < end) {
      const [old, new_] = await Promise.all([this.info(primary), this.info(replica)]);
      if (old.get('role') === 'slave' && new_.get('role') === 'master') {
        [this.primary, this.replica] = [replica, primary];
        return true;
      }
      if (old.get('master_failover_state') === 'no-failover' && old.get('role') === 'master') return false;
      await sleep(LOOK_EVERY_MS);
    }
    return false;
  }

  copyData(server: RedisServer, to: string): Promise<void> {
    return cp(server.folder, to, { recursive: true });
  }

  async replaceData(server: RedisServer, by: string | null): Promise<void> {
    await rm(server.folder, { recursive: true, force: true });
    if (by !== null) await cp(by, server.folder, { recursive: true });
  }

  async info(server: RedisServer): Promise<Map<string, string>> {
    const text = String(await this.command(server, ['INFO']));
    return new Map(
      text.split('\r\n').flatMap((line) => {
        const colon = line.indexOf(':');
        return colon < 0 ? [] : [[line.slice(0, colon), line.slice(colon + 1)] as const];
      }),
    );
  }

  /** One command on a connection of its own, straight to the server. */
  async command(server: RedisServer, [name, ...args]: [string, ...(string | number)[]]): Promise<unknown> {
    const client = this.client(server);
    try {
      return await client.call(name, args);
    } finally {
      client.disconnect();
    }
  }

  client(server: RedisServer): Redis {
    const client = new Redis({
      port: server.port,
      host: '127.0.0.1',
      maxRetriesPerRequest: 1,
      connectTimeout: 3_000,
      commandTimeout: 8_000,
      retryStrategy: (tries) => (tries > 3 ? null : 100),
    });
    client.on('error', () => {
      // The command that fails reports it.
    });
    return client;
  }

  async stop(): Promise<void> {
    await Promise.all([this.primary, this.replica].map((server) => server.engine?.stop(5_000)));
  }
}
