import type { Request } from 'express';

const SESSION = 'doorbuster_operator';
/** Maximum number of cookies of one name that are tried: without TLS, other hosts of the domain can set some too. */
const MAX_COOKIES = 32;

/**
 * Returns the name of a cookie. Over TLS it begins with `__Host-`: browsers then accept it from this host alone, so
 * that a sibling domain cannot set one that hides it.
 */
const nameOf = (req: Request, name: string): string => (req.secure ? `__Host-${name}` : name);

/** Returns the `Set-Cookie` field of a session. @param maxAgeSeconds 0 = the browser deletes the cookie */
export function sessionCookie(req: Request, value: string, maxAgeSeconds: number): string {
  return cookie(req, SESSION, value, maxAgeSeconds, 'Strict');
}

/**
 * Returns a `Set-Cookie` field for the operator's page.
 * @param sameSite `Lax` for a cookie that must arrive with a redirect from another site
 */
export function cookie(
  req: Request,
  name: string,
  value: string,
  maxAgeSeconds: number,
  sameSite: 'Strict' | 'Lax',
): string {
  const scope = req.secure ? 'Path=/; Secure' : 'Path=/admin';
  return `${nameOf(req, name)}=${value}; ${scope}; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=${sameSite}`;
}

/** Returns the values of the cookies with a name, by default those of sessions. */
export function cookiesOf(req: Request, of: string = SESSION): string[] {
  const name = nameOf(req, of);
  return (req.headers.cookie ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .slice(0, MAX_COOKIES)
    .map((pair) => pair.slice(name.length + 1));
}
