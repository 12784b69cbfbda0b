/**
 * For each connection of a test. When a connection is ended after its server, ioredis keeps a timer for so long, two
 * seconds by default. Jest kills a process that has not ended by itself after half a second, and says so.
 */
export const ENDS_SOON = { disconnectTimeout: 100 };
