const REASON_CHARS = 500;

/** Kafka cannot be used as it is configured, or as its topics are. The message says what to change. */
export class KafkaProblem extends Error {
  override readonly name = 'KafkaProblem';
}

/** An error with the errors that caused it, outermost first. */
function* withCauses(error: unknown, depth = 0): Generator<Error & { apiId?: unknown }> {
  if (!isError(error) || depth > 8) return;
  yield error;
  if ('errors' in error && Array.isArray(error.errors))
    for (const one of error.errors) yield* withCauses(one, depth + 1);
  yield* withCauses(error.cause, depth + 1);
}

/** Not `instanceof`: under Jest, errors of Node belong to another realm. */
const isError = (error: unknown): error is Error => typeof error === 'object' && error !== null && 'message' in error;

/** The name of the error in Kafka's protocol, such as `MESSAGE_TOO_LARGE`; null = it did not come from a broker. */
export function kafkaErrorId(error: unknown): string | null {
  for (const { apiId } of withCauses(error)) if (typeof apiId === 'string') return apiId;
  return null;
}

/** The messages of an error and of its causes, each once. */
export function kafkaErrorReason(error: unknown): string {
  const messages = [...withCauses(error)].flatMap(({ message, apiId }) => [
    ...(typeof apiId === 'string' ? [apiId] : []),
    message.replace(/\.$/, ''),
  ]);
  const reason = [...new Set(messages.filter(Boolean))].join(': ');
  return reason.slice(0, REASON_CHARS) || String(error);
}
