import type { ApiRole } from '../../shared/config/environment.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Route, RouteContract } from './route.js';

/** Served by every process: health, errors, and files of pages. */
const OF_ALL = /^\/(livez|readyz|metrics|errors|assets)(\/|$)/;
/** Reads that belong to the processes that write: operators and services read back what they changed. */
const OF_WRITERS = /^\/(admin|payments|regions|flash-sale\/(token|reservations|push)|coupons\/token)(\/|$)/;
/** The only POST that changes nothing. */
const VALIDATE = '/coupons/validate';

/** Returns which processes serve a route when reads and writes are apart (docs/deployment.md). */
export function roleOfRoute({ method, path }: Pick<RouteContract, 'method' | 'path'>): ApiRole {
  if (OF_ALL.test(path)) return 'all';
  if (path === VALIDATE) return 'read';
  return method === 'get' && !OF_WRITERS.test(path) ? 'read' : 'write';
}

/** Returns the routes of a process. Those of the other role are replaced by a refusal. */
export function routesOfRole(routes: readonly Route[], role: ApiRole): Route[] {
  if (role === 'all') return [...routes];
  return routes.map((route) => {
    const its = roleOfRoute(route.contract);
    if (its === 'all' || its === role) return route;
    // Nothing comes before the refusal: no guard, and no check of the query.
    const { guards: _, ...contract } = route.contract;
    const handle = () => {
      throw wrongRole(its);
    };
    return { contract: { ...contract, anyQuery: true }, handle };
  });
}

/** @param its role of the processes that serve the request */
export function wrongRole(its: 'read' | 'write'): Problem<'wrong_role'> {
  return new Problem('wrong_role', `Processes with the role ${its} serve this request.`, { members: { role: its } });
}
