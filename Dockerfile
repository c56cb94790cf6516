# The demo on a bare machine: `docker build --tag clozeline . && docker run --rm clozeline`.
FROM python:3.12-slim
# DeepSpeed compiles its CPU optimizer at the first start.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /clozeline
COPY . .
RUN make install
CMD ["make", "demo"]
