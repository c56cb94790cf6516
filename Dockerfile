# The demo on a bare machine. Its run stays in runs/demo of the folder that you are in:
# `docker build --tag clozeline . && docker run --rm --volume "$PWD/runs:/clozeline/runs" clozeline`
FROM python:3.12-slim
# DeepSpeed compiles its CPU optimizer at the first start.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /clozeline
COPY . .
RUN make install
VOLUME /clozeline/runs
CMD ["make", "demo"]
