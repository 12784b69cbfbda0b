import { type Fault, type FaultStage, type Lane, lastFor } from './fault.js';

const LANES: readonly Lane[] = ['network'];

/** What happens to connections. Each fault strikes the connections of one process. */
export const NETWORK_FAULTS: readonly Fault[] = [
  {
    name: 'redis-cut',
    about: 'responses of Redis to one process are cut off half-way',
    lanes: LANES,
    weight: 3,
    strike: (stage) => cutResponses(stage, 'redis'),
  },
  {
    name: 'postgres-cut',
    about: 'responses of Postgres to one process are cut off half-way',
    lanes: LANES,
    weight: 3,
    strike: (stage) => cutResponses(stage, 'postgres'),
  },
  {
    name: 'redis-swallow',
    about: 'packets between Redis and one process are lost, connections stay open',
    lanes: LANES,
    weight: 2,
    strike: (stage) => swallow(stage, 'redis'),
  },
  {
    name: 'postgres-swallow',
    about: 'packets between Postgres and one process are lost, connections stay open',
    lanes: LANES,
    weight: 2,
    strike: (stage) => swallow(stage, 'postgres'),
  },
  {
    name: 'http-cut',
    about: 'responses of one API process to its clients are cut off half-way',
    lanes: LANES,
    weight: 2,
    async strike({ cluster, history, random }) {
      const [api, link] = random.pick([...cluster.fronts]);
      history.event({ what: 'cut', api });
      link.cutResponses(random.int(1, 8));
      await lastFor(random, 200, 1_500);
      link.heal();
      history.event({ what: 'cut', api });
    },
  },
];

async function cutResponses(stage: FaultStage, engine: 'redis' | 'postgres'): Promise<void> {
  const link = stage.random.pick(stage.cluster.connected).links[engine];
  link.cutResponses(stage.random.int(1, 8));
  await lastFor(stage.random, 200, 2_000);
  link.heal();
}

async function swallow(stage: FaultStage, engine: 'redis' | 'postgres'): Promise<void> {
  const { name, links } = stage.random.pick(stage.cluster.connected);
  stage.history.event({ what: 'unreachable', process: name, phase: 'begin' });
  links[engine].swallow();
  await lastFor(stage.random, 300, 5_000);
  links[engine].heal();
  stage.history.event({ what: 'unreachable', process: name, phase: 'end' });
}
