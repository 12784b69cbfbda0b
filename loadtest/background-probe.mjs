// Sends one ordinary request after another while a scenario loads the server, and counts the responses. It runs in a
// thread of its own: in the generator's thread it would wait for the generator, and the delay would count as the
// server's.
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { ask, HttpClient } from './http-client.mjs';

const EVERY_MS = 20;

/**
 * @param {import('./tally.mjs').Tally} tally
 * @param {string} url of the server
 * @param {string} path of the request
 * @returns {Promise<() => Promise<void>>} stops the probe after its last response
 */
export async function startProbe(tally, url, path) {
  const worker = new Worker(new URL(import.meta.url), { workerData: { url, path } });
  worker.on('message', ([word, ...args]) => {
    if (word === 'sent') tally.sent(args[0]);
    else if (word === 'answered') tally.answered(args[0], args[1], args[2]);
    else if (word === 'broken') tally.broken(args[0], args[1]);
  });
  await once(worker, 'message');
  return async () => {
    const exited = once(worker, 'exit');
    worker.postMessage('stop');
    await exited;
  };
}

if (!isMainThread && parentPort !== null && workerData?.path) {
  const port = parentPort;
  const post =
    (/** @type {string} */ word) =>
    (/** @type {unknown[]} */ ...args) =>
      port.postMessage([word, ...args]);
  const tally = { sent: post('sent'), answered: post('answered'), broken: post('broken') };
  const client = new HttpClient(workerData.url);
  let running = true;
  port.once('message', () => {
    running = false;
  });
  await client.connect();
  post('ready')();
  while (running) {
    await ask(tally, 'probe', client, client.prepare('GET', workerData.path, null));
    await pause(EVERY_MS);
  }
  client.close();
}
