# One image for the API, the worker and the migration; docker-compose.yml says which is run.
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
RUN npm run build && npm prune --omit=dev

FROM node:24-slim
WORKDIR /app
ENV NODE_ENV=production HOST=0.0.0.0
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/lua ./lua
COPY --from=build /app/dist ./dist
# The user `node`, as a number: Kubernetes cannot tell from a name that it is not root.
USER 1000:1000
EXPOSE 8102
CMD ["node", "dist/api/main.js"]
