import { type Fault, lastFor, PROCESS_LANES } from './fault.js';

/** What happens to API and worker processes. */
export const PROCESS_FAULTS: readonly Fault[] = [
  {
    name: 'kill',
    about: 'an API or worker process is killed (SIGKILL) and started again',
    lanes: PROCESS_LANES,
    weight: 3,
    async strike({ cluster, random }, lane) {
      const node = cluster.node(lane);
      await node.kill();
      await lastFor(random, 100, 3_000);
      await node.start();
    },
  },
  {
    name: 'restart',
    about: 'an API or worker process is stopped in good order (SIGTERM) and started again',
    lanes: PROCESS_LANES,
    weight: 2,
    async strike({ cluster, random }, lane) {
      const node = cluster.node(lane);
      await node.stop();
      await lastFor(random, 50, 500);
      await node.start();
    },
  },
  {
    name: 'freeze',
    about: 'an API or worker process is stopped (SIGSTOP) and continues',
    lanes: PROCESS_LANES,
    weight: 3,
    async strike({ cluster, random }, lane) {
      const node = cluster.node(lane);
      node.freeze();
      await lastFor(random, 300, 8_000);
      node.resume();
    },
  },
];
