// The scenarios by name. The header of each file has the question, the people and the checks.

/** @type {Record<string, { about: string, load: () => Promise<import('./scenario.js').Scenario> }>} */
export const SCENARIOS = {
  spike: {
    about: 'an opening with the file that Artillery runs alone: artillery/spike.yml',
    load: async () => (await import('./scenarios/spike.mjs')).scenario,
  },
  'opening-second': {
    about: '10,000 people within one second on 1,000 units',
    load: async () => (await import('./scenarios/opening-second.mjs')).scenario,
  },
  'steady-day': {
    about: 'a day in a minute: checkouts, payments, releases, refunds, questions',
    load: async () => (await import('./scenarios/steady-day.mjs')).scenario,
  },
  'thundering-reconnect': {
    about: '5,000 sockets are cut off and come back at once',
    load: async () => (await import('./scenarios/thundering-reconnect.mjs')).scenario,
  },
  'waiting-room': {
    about: 'people poll their place, units come back, the line moves: artillery/waiting-room.yml',
    load: async () => (await import('./scenarios/waiting-room.mjs')).scenario,
  },
  'waiting-room-sockets': {
    about: 'the same with the typed client, at sockets',
    load: async () => (await import('./scenarios/waiting-room-sockets.mjs')).scenario,
  },
  'hostile-devices': {
    about: 'devices over their quota, forged tokens, guessed codes, and ordinary shoppers among them',
    load: async () => (await import('./scenarios/hostile-devices.mjs')).scenario,
  },
  'payment-timeouts': {
    about: 'no user pays, units expire and go down the line: artillery/payment-timeouts.yml',
    load: async () => (await import('./scenarios/payment-timeouts.mjs')).scenario,
  },
  codes: {
    about: 'shared, pool and bound codes are checked and redeemed while others are made',
    load: async () => (await import('./scenarios/codes.mjs')).scenario,
  },
  'ten-buckets': {
    about: '100,000 people on ten buckets, on three nodes of its own that are killed and frozen',
    load: async () => (await import('./scenarios/ten-buckets.mjs')).scenario,
  },
  'half-a-million': {
    about: '500,000 checkouts in a minute × --scale, on three nodes of its own, with the CPU of each process',
    load: async () => (await import('./scenarios/half-a-million.mjs')).scenario,
  },
};
