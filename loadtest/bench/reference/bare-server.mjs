// The control of floods.mjs: a bare `node:http` server that answers every request with a short JSON.
import { once } from 'node:events';
import { createServer } from 'node:http';

const server = createServer((req, res) => {
  req.resume();
  res.setHeader('content-type', 'application/json');
  res.end('{"status":"ok"}');
});
server.listen(0, '127.0.0.1', 4_096);
await once(server, 'listening');
const address = server.address();
if (address === null || typeof address === 'string') throw new Error('no port');
process.send?.(`http://127.0.0.1:${address.port}`);
process.once('disconnect', () => process.exit(0));
