// Ports that stay free while the program that has one is down: a test may kill an engine and start it again a minute
// later. The system gives ports of its own range to connections, so these are below that range. Each process that needs
// ports takes a block of them, which no other process of any run on this machine has at the same time.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { whyNotListen } from './ports.mjs';

const FIRST = 10_000;
const END = 20_000;
const BLOCK = 500;

/** @returns {number} the number of blocks below the ports that the system gives to connections */
function countBlocks() {
  let end = END;
  try {
    const [lowest = END] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/).map(Number);
    // Where the system may give any port, there is no better range.
    if (lowest >= FIRST + BLOCK) end = Math.min(END, lowest);
  } catch {
    // Only Linux has the file. The ranges of other systems begin above 20,000.
  }
  return Math.floor((end - FIRST) / BLOCK);
}

/** A block of ports. While its process has it, the process listens on the first one, so it ends with the process. */
export class PortRange {
  #next;
  #end;
  #guard;

  /**
   * @param {number} first
   * @param {import('node:net').Server} guard
   */
  constructor(first, guard) {
    this.#next = first + 1;
    this.#end = first + BLOCK;
    this.#guard = guard;
  }

  /**
   * Takes a block that no other process has.
   * @param {number} preferred number of the block that is tried first, from 0
   */
  static async take(preferred) {
    const blocks = countBlocks();
    for (let i = 0; i < blocks; i += 1) {
      const first = FIRST + BLOCK * ((preferred + i) % blocks);
      const guard = await listen(first);
      if (guard) return new PortRange(first, guard);
    }
    throw new Error(`Other processes have all ports from ${FIRST} to ${FIRST + BLOCK * blocks}.`);
  }

  /**
   * Returns a free port. It returns no port twice.
   * @returns {Promise<number>}
   */
  async freePort() {
    while (this.#next < this.#end) {
      const port = this.#next;
      this.#next += 1;
      if ((await whyNotListen(port)) === undefined) return port;
    }
    throw new Error(`All ${BLOCK} ports are used up.`);
  }

  /** @returns {Promise<void>} */
  async release() {
    await new Promise((resolve) => this.#guard.close(resolve));
  }
}

/**
 * @param {number} port
 * @returns {Promise<import('node:net').Server | null>} null = the port is taken
 */
function listen(port) {
  const server = createServer((socket) => socket.destroy());
  return new Promise((resolve) => {
    server.once('error', () => resolve(null));
    // Keeps no process alive.
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => resolve(server.unref()));
  });
}
