// The WebSocket client of the product. Imported by its name alone, it would be the much older one that Artillery
// installs in this folder.
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** @typedef {import('ws').WebSocket} WebSocket */
/** @type {typeof import('ws').WebSocket} */
export const WebSocket = createRequire(join(ROOT, 'package.json'))('ws').WebSocket;

/** Whether a frame is a promotion, by its first bytes. @param {import('ws').RawData} data */
export const isPromoted = (data) => Buffer.isBuffer(data) && data.subarray(0, 24).includes('"promoted"');
