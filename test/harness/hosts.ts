import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { atEnd } from './cleanup.js';

/** Why this machine cannot have hosts of its own; null = it can. */
export function whyNoHosts(): string | null {
  if (process.platform !== 'linux') return 'network namespaces are a part of Linux';
  if (process.getuid?.() !== 0) return 'only root makes network namespaces';
  try {
    ip('netns', 'add', `${PREFIX}t`);
    ip('netns', 'delete', `${PREFIX}t`);
    return null;
  } catch (error) {
    return `no network namespace can be made: ${error instanceof Error ? error.message.split('\n')[0] : error}`;
  }
}

/** Names of interfaces have at most 15 characters. */
const PREFIX = `db${process.pid}`;

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

type End = { host: string; port: number } | { path: string };

/** Forwards connections from one end to another one, and prints the port at which it listens. */
const RELAY = `const [from, to] = process.argv.slice(1).map((end) => JSON.parse(end));
const net = require('node:net');
const server = net.createServer((one) => {
  const other = net.connect(to);
  for (const socket of [one, other]) socket.on('error', () => { one.destroy(); other.destroy(); });
  one.pipe(other).pipe(one);
});
server.listen(from, () => console.log(server.address().port ?? 0));`;

/**
 * Starts a process that forwards connections; ended with the test file. A crowd in the test cannot keep it from its
 * sockets, as it would keep the test.
 * @param within in front of the command. @returns the port of `from`
 */
async function relay(from: End, to: End, within: readonly string[] = []): Promise<number> {
  const [program = '', ...args] = [...within, process.execPath, '-e', RELAY, JSON.stringify(from), JSON.stringify(to)];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const exited = once(child, 'exit');
  atEnd('a relay', async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const ended = exited.then(() => Promise.reject(new Error('a relay has ended')));
  const [port] = await Promise.race([once(child.stdout, 'data'), ended]);
  return Number(String(port));
}

/** A host of its own on this machine: a network namespace, which a switch connects with the others. */
export type Host = {
  address: string;
  /** In front of a command, so that it runs there. */
  within: readonly string[];
  /** Cuts the host off: packets to it and from it vanish, and no connection notices that. */
  cut(): void;
  heal(): void;
};

/**
 * Some hosts and a switch; removed with the test file. The test itself is at the switch, and stays there when a host is
 * cut off. It reaches a port inside a host through `doorTo`.
 */
export class HostNetwork {
  readonly hosts: Host[] = [];
  /** The address of the test at the switch. */
  readonly address: string;
  readonly #subnet = `10.${64 + (process.pid % 64)}.${(process.pid >> 6) % 256}`;
  readonly #bridge = `${PREFIX}b`;

  constructor(count: number) {
    this.address = `${this.#subnet}.254`;
    ip('link', 'add', this.#bridge, 'type', 'bridge');
    atEnd('the switch', () => ip('link', 'delete', this.#bridge));
    ip('address', 'add', `${this.address}/24`, 'dev', this.#bridge);
    ip('link', 'set', this.#bridge, 'up');
    for (let n = 1; n <= count; n += 1) this.hosts.push(this.#addHost(n));
  }

  #addHost(n: number): Host {
    const [name, cable, address] = [`${PREFIX}h${n}`, `${PREFIX}v${n}`, `${this.#subnet}.${n}`];
    const within = ['ip', 'netns', 'exec', name];
    ip('netns', 'add', name);
    atEnd(`host ${n}`, () => ip('netns', 'delete', name));
    ip('link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
    const inside = (...args: string[]) => ip('-n', name, ...args);
    inside('address', 'add', `${address}/24`, 'dev', 'eth0');
    inside('link', 'set', 'eth0', 'up');
    inside('link', 'set', 'lo', 'up');
    const heal = () => ip('link', 'set', cable, 'master', this.#bridge, 'up');
    heal();
    return { address, within, cut: () => ip('link', 'set', cable, 'nomaster'), heal };
  }

  /** Listens at the switch and forwards to a port of the loopback. @returns the port */
  shelve(port: number): Promise<number> {
    return relay({ host: this.address, port: 0 }, { host: '127.0.0.1', port });
  }
}

/**
 * A port of the loopback that leads to a port inside a host, also while the host is cut off: through a socket in the
 * file system.
 */
export async function doorTo({ within, address }: Host, port: number, folder: string): Promise<number> {
  const path = join(folder, `${address}-${port}.sock`);
  await relay({ path }, { host: address, port }, within);
  return relay({ host: '127.0.0.1', port: 0 }, { path });
}
