import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { atEnd } from './cleanup.js';

/** A span as OTLP over HTTP has it, with its attributes as an object. */
export type ReceivedSpan = {
  traceId: string;
  spanId: string;
  /** "" = the first span of its trace. */
  parentSpanId: string;
  name: string;
  /** 2 = server, 3 = client, 4 = producer, 5 = consumer. */
  kind: number;
  /** In ns. */
  start: bigint;
  end: bigint;
  attributes: Record<string, unknown>;
  /** Of the process. */
  resource: Record<string, unknown>;
  links: { traceId: string; spanId: string }[];
  failed: boolean;
};

/** A collector of OpenTelemetry: keeps all spans, and responds as a test has set. */
export class SpanReceiver {
  readonly spans: ReceivedSpan[] = [];
  /** Bodies as they came. */
  readonly texts: string[] = [];
  readonly headers: Record<string, unknown>[] = [];
  /** The status of each response; null = none. */
  status: number | null = 200;

  constructor(readonly url: string) {}

  inTrace(traceId: string): ReceivedSpan[] {
    return this.spans.filter((span) => span.traceId === traceId);
  }
}

export async function startSpanReceiver(): Promise<SpanReceiver> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { status } = receiver;
    if (request.url !== '/v1/traces') return response.writeHead(404).end();
    if (status === 200) {
      const text = Buffer.concat(chunks).toString();
      receiver.texts.push(text);
      receiver.headers.push(request.headers);
      receiver.spans.push(...spansOf(JSON.parse(text)));
    }
    if (status !== null) response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const receiver = new SpanReceiver(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  atEnd('a receiver of spans', async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return receiver;
}

type Json = Record<string, any>;

function spansOf(body: Json): ReceivedSpan[] {
  const groups: Json[] = body.resourceSpans.flatMap(({ resource, scopeSpans }: Json) =>
    scopeSpans.flatMap(({ spans }: Json) => spans.map((span: Json) => ({ span, resource }))),
  );
  return groups.map(({ span, resource }) => ({
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId ?? '',
    name: span.name,
    kind: span.kind,
    start: BigInt(span.startTimeUnixNano),
    end: BigInt(span.endTimeUnixNano),
    attributes: attributesOf(span.attributes),
    resource: attributesOf(resource.attributes),
    links: (span.links ?? []).map(({ traceId, spanId }: Json) => ({ traceId, spanId })),
    failed: span.status?.code === 2,
  }));
}

function attributesOf(list: Json[]): Record<string, unknown> {
  return Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value)[0]]));
}
