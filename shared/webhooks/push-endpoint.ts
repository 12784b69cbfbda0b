/** Which URLs a subscription may name. */
export type PushEndpoints = {
  /** Hosts of push services; `*.` = every host below it. */
  services: readonly string[];
  /** Whether any URL is accepted, for development. */
  anyEndpoint: boolean;
};

/**
 * Why a URL cannot be the endpoint of a push subscription; null = it can. A shopper chooses the URL, so it has to be at
 * a push service that is named: otherwise shoppers could make this server send requests to any host.
 */
export function pushEndpointProblem(text: string, { services, anyEndpoint }: PushEndpoints): string | null {
  if (!URL.canParse(text)) return 'must be a URL';
  const url = new URL(text);
  if (url.username || url.password) return 'must not have a user or password';
  if (anyEndpoint) return /^https?:$/.test(url.protocol) ? null : 'must be a URL starting with https:// or http://';
  if (url.protocol !== 'https:' || url.port !== '') return 'must be a URL starting with https://, without a port';
  const isKnown = services.some((service) =>
    service.startsWith('*.') ? url.hostname.endsWith(service.slice(1)) : url.hostname === service,
  );
  return isKnown ? null : `${url.hostname} is not one of PUSH_SERVICES`;
}
