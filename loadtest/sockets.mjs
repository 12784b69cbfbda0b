// The product's own WebSocket client. By its name alone, files in this folder would get the much older one that Artillery brings
// along, once that is installed.
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** @type {typeof import('ws').WebSocket} */
export const WebSocket = createRequire(join(ROOT, 'package.json'))('ws').WebSocket;
