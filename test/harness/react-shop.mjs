// A page of a shop that uses the React hook of the client. The test bundles it for a browser.
import { createElement, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { useSale } from '../../client/react.js';

function Shop() {
  const { baseUrl, productId } = document.body.dataset;
  const sale = useSale({ baseUrl, productId, userId: 'ann' });
  const text = [sale.campaign?.name, sale.standing?.status, sale.standing?.position, sale.refusal?.code];
  return createElement(
    'main',
    null,
    createElement('p', { id: 'state' }, text.filter((part) => part !== null && part !== undefined).join(' · ')),
    createElement('button', { type: 'button', onClick: () => sale.attempt() }, sale.trying ? 'Trying' : 'Buy'),
    createElement('button', { type: 'button', onClick: () => sale.release() }, 'Give back'),
  );
}

createRoot(document.getElementById('shop')).render(createElement(StrictMode, null, createElement(Shop)));
