import { randomInt } from 'node:crypto';

/** An address that no other test has, since files that share a service share what it counts of a network. */
export const newAddress = (): string => `${randomInt(11, 100)}.${randomInt(256)}.${randomInt(256)}.${randomInt(256)}`;
